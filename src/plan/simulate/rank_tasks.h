#pragma once
#include <array>
#include <functional>
#include <vector>

#include "dlrm/plan/machine.h"

#include "event_run.h"
#include "resources.h"
#include "step_work.h"

namespace dlrm {

/// The tasks of all ranks in a run. Each rank has a main lane, and one for its readers of data. On
/// a GPU it has three more lanes; on a CPU these are the main lane. All ranks share three lanes of
/// exchanges, and the links within and between nodes.
class RankTasks {
 public:
  enum Lane { kMain, kReaders, kHost, kSide, kWeights, kLanes };
  enum ExchangeLane { kIds, kVectors, kSums, kExchangeLanes };
  /// A task of each rank, or one of all ranks, that others wait for. -1: nothing to wait for.
  using Point = int;

  struct Label {
    const char* stage = "";
    int rank = -1;  ///< -1: all ranks, an exchange
    int step = 0;
    bool exchange = false;
  };

  RankTasks(int ranks, const SimulatedMachine& machine);

  const MachineSpeed& speed() const { return resources_.speed(); }
  double threads() const { return resources_.threads(); }

  void begin_step() { ++step_; }
  using DemandOf = std::function<Demand(size_t rank)>;
  /// An operation of every rank.
  Point compute(const char* stage, Lane lane, const std::vector<Point>& after,
                const DemandOf& demand) {
    return add_for_ranks({stage, 0, step_, false}, lane, after, demand);
  }
  /// Keeps so many threads of every rank busy for `seconds` in all.
  Point keep_busy(const char* stage, Lane lane, const std::vector<Point>& after, double threads,
                  const std::function<double(size_t rank)>& seconds);
  /// Begins when all ranks are ready. -1 if nothing is sent.
  Point start(const char* stage, ExchangeLane lane, const ExchangeWork& work,
              const std::vector<Point>& after);
  /// What waits for an exchange that was started. On CPUs ranks then copy what they receive from
  /// their node, since nothing else does. GPUs have hardware for that.
  Point finish(const char* stage, const ExchangeWork& work, Point started);
  /// The last operation of the main lane.
  Point main() const { return main_; }

  void run() { run_.run(); }
  const EventRun& events() const { return run_; }
  const Label& label(int task) const { return labels_[static_cast<size_t>(task)]; }
  const std::vector<int>& tasks_of(Point point) const {
    return points_[static_cast<size_t>(point)];
  }

 private:
  int add(const Label& label, int lane, const EventRun::Work& work);
  Point add_for_ranks(Label label, Lane lane, const std::vector<Point>& after,
                      const DemandOf& demand);
  static Demand busy(double seconds, double threads) {
    return {.latency = seconds / threads, .launches = 0, .threads = threads};
  }

  EventRun run_;
  const Resources resources_;
  std::vector<std::array<int, kLanes>> lanes_;  ///< by rank
  std::array<int, kExchangeLanes> exchange_lanes_ = {};
  std::vector<Label> labels_;
  std::vector<std::vector<int>> points_;
  std::vector<int> after_;  ///< tasks that the next one waits for
  Point main_ = -1;
  int step_ = -1;
};

}  // namespace dlrm
