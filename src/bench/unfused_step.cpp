#include "unfused_step.h"

#include <numeric>

#include "dlrm/plan/traffic.h"

#include "plan/simulate/dense_passes.h"
#include "plan/simulate/predict.h"
#include "plan/simulate/step_work.h"

namespace dlrm::bench {
namespace {

/// Seconds of each rank for its tables.
std::vector<double> table_seconds(const RunConfig& config, const Plan& plan,
                                  const UnfusedCosts& costs) {
  std::vector<double> seconds(static_cast<size_t>(plan.world));
  const auto batch = static_cast<double>(config.train.global_batch_size);
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i];
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    double& rank = seconds[static_cast<size_t>(shard.rank)];
    const double ids = batch * hotness_of(table);
    rank += costs.element * ids * static_cast<double>(shard.columns.size());
    if (shares_ids(plan, i)) continue;  // slices of a table on one rank are one table
    rank += costs.id * ids + costs.input * static_cast<double>(table.features.size());
  }
  return seconds;
}

/// Inputs of all ranks. An input of several slices counts several times.
double inputs_of(const ModelConfig& model, const Plan& plan) {
  double inputs = 0;
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    if (shares_ids(plan, i)) continue;
    const auto table = static_cast<size_t>(plan.shards[i].table);
    inputs += static_cast<double>(model.tables[table].features.size());
  }
  return inputs;
}

class UnfusedStep {
 public:
  UnfusedStep(const StepWork& work, const std::vector<double>& tables, double received,
              RankTasks& tasks)
      : work_(work), tables_(tables), received_(received), tasks_(tasks), dense_(work, tasks) {}

  /// How the seconds of tables divide into lookup and update is not known. Half of them are charged
  /// to each.
  void add_step() {
    const RankTasks::Point looked_up =
        wait("lookup", {}, [&](size_t rank) { return tables_[rank] / 2; });
    wait("return", {exchange("exchange of vectors", work_.pooled, looked_up)},
         [&](size_t) { return received_; });
    dense_.bottom();
    dense_.interact();
    dense_.top();
    dense_.top_back();
    dense_.interact_back();
    dense_.bottom_back();
    const RankTasks::Point sent = exchange("exchange of gradients", work_.gradients, tasks_.main());
    dense_.finish_gradients();
    tasks_.compute("update", RankTasks::kMain, {},
                   [&](size_t) { return Demand{work_.dense.update_bytes}; });
    wait("update", {sent}, [&](size_t rank) { return tables_[rank] / 2; });
  }

 private:
  RankTasks::Point exchange(const char* stage, const ExchangeWork& work, RankTasks::Point after) {
    return tasks_.finish(stage, work, tasks_.start(stage, RankTasks::kVectors, work, {after}));
  }

  template <class SecondsOf>
  RankTasks::Point wait(const char* stage, const std::vector<RankTasks::Point>& after,
                        const SecondsOf& seconds) {
    return tasks_.compute(stage, RankTasks::kMain, after, [&](size_t rank) {
      return Demand{0, 0, seconds(rank)};
    });
  }

  const StepWork& work_;
  const std::vector<double>& tables_;
  const double received_;
  RankTasks& tasks_;
  DensePasses dense_;
};

/// E is copied to the input of the layers above, and its gradient back.
void copy_embeddings(const ModelConfig& model, DenseWork& work) {
  if (!std::visit([](const auto& i) { return i.embeddings_in_place(); }, model.interaction)) return;
  for (PassWork* pass : {&work.interact_forward, &work.interact_backward}) {
    pass->bytes += (4 + work.element_bytes) * static_cast<double>(model.embedding_width());
  }
}

}  // namespace

StepPrediction simulate_unfused_step(const RunConfig& given, const Plan& plan,
                                     const PlanOptions& options, const UnfusedCosts& costs) {
  const RunConfig config = with_known_device(given, options);
  StepWork work = step_work(config, plan, options);
  work.ids = {};
  copy_embeddings(config.model, work.dense);
  const std::vector<double> tables = table_seconds(config, plan, costs);
  const double received = costs.model_input * inputs_of(config.model, plan);
  std::vector<int> ranks(work.ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return predict_step(
      simulated_machine(config, plan.world, options), work, ranks, [&](RankTasks& tasks) {
        return [step = UnfusedStep(work, tables, received, tasks)]() mutable { step.add_step(); };
      });
}

}  // namespace dlrm::bench
