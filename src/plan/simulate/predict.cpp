#include "predict.h"

#include <algorithm>
#include <set>

#include "step_graph.h"
#include "step_work.h"

namespace dlrm {
namespace {

/// The first step starts with empty lanes. The last one is reported.
constexpr int kSteps = 3;

/// Tasks of the reported step in the order in which they were added.
class Report {
 public:
  Report(const RankTasks& tasks, const std::vector<int>& ranks)
      : tasks_(tasks), run_(tasks.events()), ranks_(ranks) {}

  std::vector<StepPrediction::Stage> stages() const {
    std::vector<StepPrediction::Stage> stages;
    std::vector<std::vector<double>> seconds;  // by stage and rank
    for (int task = 0; task < run_.tasks(); ++task) {
      const RankTasks::Label& label = tasks_.label(task);
      if (label.step != kSteps - 1) continue;
      const size_t i = stage_of(label, stages);
      if (i == seconds.size()) seconds.emplace_back(ranks_.size());
      if (label.rank >= 0) {
        seconds[i][static_cast<size_t>(label.rank)] += duration(task);
      } else {
        for (double& rank : seconds[i]) rank += duration(task);
      }
    }
    for (size_t i = 0; i < stages.size(); ++i) {
      const auto most = std::max_element(seconds[i].begin(), seconds[i].end());
      stages[i].most = *most;
      if (!stages[i].exchange) stages[i].rank = number(static_cast<int>(most - seconds[i].begin()));
    }
    return stages;
  }

  /// From task `last` back to the time `since`. A task begins when the one that it waits for last
  /// ends. Neighbours of one stage are added up.
  std::vector<StepPrediction::Link> critical_path(int last, double since) const {
    std::vector<StepPrediction::Link> path;
    for (int task = last; task >= 0 && run_.end(task) > since; task = run_.cause(task)) {
      const RankTasks::Label& label = tasks_.label(task);
      const double seconds = run_.end(task) - std::max(run_.begin(task), since);
      if (!path.empty() && path.back().stage == label.stage &&
          path.back().rank == number(label.rank)) {
        path.back().seconds += seconds;
      } else if (seconds > 0) {
        path.push_back({label.stage, number(label.rank), seconds});
      }
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  int number(int simulated) const {
    return simulated < 0 ? -1 : ranks_[static_cast<size_t>(simulated)];
  }
  double duration(int task) const { return run_.end(task) - run_.begin(task); }

  static size_t stage_of(const RankTasks::Label& label,
                         std::vector<StepPrediction::Stage>& stages) {
    const auto found = std::find_if(stages.begin(), stages.end(),
                                    [&](const auto& stage) { return stage.name == label.stage; });
    const auto i = static_cast<size_t>(found - stages.begin());
    if (found == stages.end()) stages.push_back({label.stage, 0, -1, label.exchange});
    return i;
  }

  const RankTasks& tasks_;
  const EventRun& run_;
  const std::vector<int>& ranks_;
};

int last_of(const std::vector<int>& tasks, const EventRun& run) {
  return *std::max_element(tasks.begin(), tasks.end(),
                           [&](int a, int b) { return run.end(a) < run.end(b); });
}

StepPrediction run_steps(const std::vector<int>& ranks, RankTasks& tasks, const AddStep& add_step) {
  std::vector<RankTasks::Point> ends;
  for (int step = 0; step < kSteps; ++step) {
    tasks.begin_step();
    add_step();
    ends.push_back(tasks.main());
  }
  tasks.run();
  const EventRun& run = tasks.events();
  const int last = last_of(tasks.tasks_of(ends[kSteps - 1]), run);
  const Report report(tasks, ranks);
  StepPrediction prediction;
  const double since = run.end(last_of(tasks.tasks_of(ends[kSteps - 2]), run));
  prediction.step = run.end(last) - since;
  prediction.stages = report.stages();
  for (const StepPrediction::Stage& stage : prediction.stages) {
    if (stage.exchange) prediction.exchange += stage.most;
  }
  prediction.critical_path = report.critical_path(last, since);
  return prediction;
}

/// Leaves one of the units of so many ranks that do the same work. Returns the ranks that are left.
std::vector<int> merge_equal(size_t unit, std::vector<RankWork>& ranks) {
  std::set<std::vector<RankWork>> known;
  std::vector<int> numbers;
  std::vector<RankWork> left;
  for (size_t begin = 0; begin < ranks.size(); begin += unit) {
    const size_t end = std::min(begin + unit, ranks.size());
    const auto at = [&](size_t r) { return ranks.begin() + static_cast<std::ptrdiff_t>(r); };
    if (!known.emplace(at(begin), at(end)).second) continue;
    left.insert(left.end(), at(begin), at(end));
    for (size_t r = begin; r < end; ++r) numbers.push_back(static_cast<int>(r));
  }
  ranks = std::move(left);
  return numbers;
}

}  // namespace

StepPrediction predict_step(const SimulatedMachine& machine, const StepWork& work,
                            const std::vector<int>& ranks,
                            const std::function<AddStep(RankTasks& tasks)>& make_steps) {
  const auto run = [&](const SimulatedMachine& on) {
    RankTasks tasks(static_cast<int>(ranks.size()), on);
    return run_steps(ranks, tasks, make_steps(tasks));
  };
  StepPrediction prediction = run(machine);
  prediction.exposed = std::max(prediction.step - run(machine.without_exchanges()).step, 0.0);
  const ExchangeWork exchanged = work.exchanged();
  prediction.local_bytes = exchanged.local_bytes;
  prediction.network_bytes = exchanged.network_bytes;
  return prediction;
}

StepPrediction simulate_step(const RunConfig& given, const Plan& plan, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  const SimulatedMachine machine = simulated_machine(config, plan.world, options);
  StepWork work = step_work(config, plan, options);
  const int unit = machine.shares_processors() ? machine.share.ranks : 1;
  const std::vector<int> ranks = merge_equal(static_cast<size_t>(unit), work.ranks);
  return predict_step(machine, work, ranks, [&](RankTasks& tasks) {
    return [graph = StepGraph(work, tasks)]() mutable { graph.add_step(); };
  });
}

}  // namespace dlrm
