// Runs steps in the emulator and records what they queue.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/train/trainer.h"

#include "surroundings.h"
#include "timeline.h"

namespace dlrm::bench {
namespace {

/// Untimed steps, in which buffers reach their sizes.
constexpr int kFirstSteps = 3;
constexpr int kRecordedSteps = 3;

/// The places of all threads, each of which has a number.
class Places {
 public:
  int number_of(const StepPlace& place) {
    const std::lock_guard lock(mutex_);
    const auto key = std::tuple(place.rank, place.step, place.stage);
    const auto [found, is_new] = numbers_.try_emplace(key, static_cast<int>(places_.size()));
    if (is_new) places_.push_back(place);
    return found->second;
  }
  std::vector<StepPlace> take() { return std::move(places_); }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, std::string>, int> numbers_;
  std::vector<StepPlace> places_;
};

/// What the calling thread does. Null on threads that train nothing.
struct CurrentPlace {
  int rank = -1;
  int step = -1;
  const Trace* trace = nullptr;
};
thread_local CurrentPlace current_place;

class Rank {
 public:
  Rank(Communicator& comm, const RunConfig& config, const Plan& plan)
      : surroundings_(comm, config, machine_share(comm)),
        source_(make_batch_source(config, Split::kTrain, comm.rank(), comm.size())),
        trainer_(surroundings_.context, *surroundings_.ops, config, plan, true) {
    current_place = {comm.rank(), -1, &surroundings_.trace};
  }
  ~Rank() { current_place = {}; }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  ShardedEmbeddings::LookupWork lookup_work() { return trainer_.embeddings().lookup_work(); }

  void train(int steps, bool recorded) {
    for (int s = 0; s < steps; ++s) {
      current_place.step = recorded ? s : -1;
      trainer_.step(step_++, false, [&] {
        source_->load(loaded_++, batch_);
        return &batch_;
      });
    }
    current_place.step = -1;
    surroundings_.context.stream.synchronize();
  }

  /// Trains on the batches that were routed ahead: their exchanges need all ranks.
  void finish() {
    while (trainer_.routed() > 0) trainer_.step(step_++, false);
  }

 private:
  Surroundings surroundings_;
  const std::unique_ptr<BatchSource> source_;
  Trainer trainer_;
  Batch batch_;
  int64_t step_ = 0, loaded_ = 0;
};

/// Boundaries of a table's parts, at the other number of rows.
class Boundaries {
 public:
  void add(Range rows) {
    moved_[rows.begin] = 0;
    moved_[rows.end] = 0;
  }
  /// Each part keeps a row at least.
  void move(int64_t from_rows, int64_t to_rows) {
    auto left = static_cast<int64_t>(moved_.size());
    int64_t least = 0;
    for (auto& [from, to] : moved_) {
      --left;
      const double share = static_cast<double>(from) / static_cast<double>(from_rows);
      const auto nearest = std::llround(share * static_cast<double>(to_rows));
      to = std::clamp<int64_t>(nearest, least, to_rows - left);
      least = to + 1;
    }
  }
  Range of(Range rows) const { return {moved_.at(rows.begin), moved_.at(rows.end)}; }

 private:
  std::map<int64_t, int64_t> moved_;
};

}  // namespace

const StepPlace& RecordedSteps::place(int label) const {
  static const StepPlace nowhere;
  return label < 0 ? nowhere : places[static_cast<size_t>(label)];
}

RunConfig emulated_config(const TimelineOptions& options) {
  RunConfig config = options.config;
  for (TableConfig& table : config.model.tables) table.rows = std::min(table.rows, options.rows);
  config.train.global_batch_size = options.samples * options.ranks;
  config.train.pin_algorithms = true;
  config.train.threads = 1;
  config.data.source = DataKind::kSynthetic;
  config.data.synthetic.samples = config.train.global_batch_size;
  config.device = DeviceKind::kCuda;
  config.comm = CommKind::kNccl;
  return config;
}

Plan emulated_plan(const Plan& plan, const ModelConfig& from, const ModelConfig& to) {
  std::vector<Boundaries> boundaries(from.tables.size());
  for (const Shard& shard : plan.shards) {
    boundaries[static_cast<size_t>(shard.table)].add(shard.rows);
  }
  for (size_t t = 0; t < boundaries.size(); ++t) {
    boundaries[t].move(from.tables[t].rows, to.tables[t].rows);
  }
  Plan scaled = plan;
  for (Shard& shard : scaled.shards) {
    shard.rows = boundaries[static_cast<size_t>(shard.table)].of(shard.rows);
  }
  check_plan(scaled, to, "the plan at the emulator's sizes");
  return scaled;
}

RecordedSteps record_steps(const RunConfig& config, const Plan& plan) {
  Places places;
  const auto label = [&] {
    const CurrentPlace& here = current_place;
    if (!here.trace || here.step < 0) return -1;
    return places.number_of({here.rank, here.step, here.trace->current()});
  };
  if (!cuda_is_emulated()) {
    throw usage_error(
        "timeline: this build has no emulator; `launch/build.sh simt` makes one that has");
  }
  ::setenv("NCCL_HOSTID", "of this rank", 1);  // ranks that share a GPU need one each
  RecordedSteps recorded;
  recorded.steps = kRecordedSteps;
  recorded.lookups.resize(static_cast<size_t>(plan.world));
  std::unique_ptr<StreamRecorder> recorder;
  run_on_threads(plan.world, [&](Communicator& comm) {
    Rank rank(comm, config, plan);
    recorded.lookups[static_cast<size_t>(comm.rank())] = rank.lookup_work();
    rank.train(kFirstSteps, false);
    comm.barrier();
    if (comm.rank() == 0) recorder = record_streams(label);
    comm.barrier();
    rank.train(kRecordedSteps, true);
    comm.barrier();
    if (comm.rank() == 0) recorded.queued = recorder->take();
    comm.barrier();
    rank.finish();
  });
  recorded.places = places.take();
  return recorded;
}

std::vector<LaunchCounts> count_launches(const RecordedSteps& steps, int ranks, int step) {
  std::vector<LaunchCounts> counts(static_cast<size_t>(ranks));
  std::vector<std::vector<uint64_t>> collectives(counts.size());
  for (const QueuedOperation& operation : steps.queued.operations) {
    const StepPlace& place = steps.place(operation.label);
    if (place.step != step) continue;
    const auto rank = static_cast<size_t>(place.rank);
    LaunchCounts& count = counts[rank];
    if (operation.collective != 0) {
      auto& seen = collectives[rank];
      if (std::find(seen.begin(), seen.end(), operation.collective) == seen.end()) {
        seen.push_back(operation.collective);
        ++count.collectives;
      }
      continue;
    }
    using Kind = QueuedOperation::Kind;
    if (operation.kind == Kind::kKernel) ++count.kernels;
    if (operation.kind == Kind::kLibrary) ++count.library_calls;
    if (operation.kind == Kind::kFill) ++count.fills;
    if (operation.kind == Kind::kCopy) ++count.copies;
  }
  for (const HostWait& wait : steps.queued.waits) {
    const StepPlace& place = steps.place(wait.label);
    if (place.step != step) continue;
    LaunchCounts& count = counts[static_cast<size_t>(place.rank)];
    ++(wait.blocked ? count.host_waits : count.host_polls);
  }
  return counts;
}

}  // namespace dlrm::bench
