#pragma once
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/device/stream_recording.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/plan.h"

#include "recorded_step.h"

namespace dlrm::bench {

struct TimelineOptions {
  std::string config_path;
  RunConfig config;  ///< names the machine file
  int ranks = 8;
  int64_t samples = 8;       ///< of a rank, in the emulator
  int64_t rows = 2000;       ///< that the emulator keeps of a table at most
  double device_memory = 0;  ///< bytes of a rank that the plan may use; 0: not known
};

/// Where a rank was when it queued an operation.
struct StepPlace {
  int rank = -1;
  int step = -1;
  std::string stage;  ///< of Trainer::step()
};

/// What a rank's step queues.
struct LaunchCounts {
  int kernels = 0;
  int library_calls = 0;  ///< products, sorts and prefix sums; a collective is none
  int fills = 0;
  int copies = 0;
  int collectives = 0;
  int host_waits = 0;  ///< calls that block the host until the device has progressed
  int host_polls = 0;  ///< operations whose end the host asks for without blocking

  int launches() const { return kernels + library_calls + fills; }
};

/// Several steps of all ranks in the emulator.
struct RecordedSteps {
  QueuedOperations queued;
  std::vector<StepPlace> places;  ///< by label
  int steps = 0;
  std::vector<ShardedEmbeddings::LookupWork> lookups;  ///< by rank

  const StepPlace& place(int label) const;
};

/// An operation or a collective, with its times.
struct TimelineOperation {
  QueuedOperation::Kind kind = QueuedOperation::Kind::kMark;
  std::string name;
  StepPlace place;           ///< of a collective: of the first rank that queued it
  std::vector<int> streams;  ///< more than one for a collective
  bool collective = false;
  double begin = 0, end = 0;  ///< modelled seconds, from the first step's begin
};

struct TimelineResult {
  Machine machine;
  Plan plan;                                  ///< at the config's sizes
  std::vector<LaunchCounts> counts;           ///< of the last step, by rank
  std::vector<TimelineOperation> operations;  ///< of all steps, in an order of their dependencies
  std::vector<StepOperation> graph;           ///< the same operations, as they were timed
  double begin = 0, end = 0;                  ///< of the last step
  double exposed = 0;   ///< modelled seconds that the last step is longer than without exchanges
  double exchange = 0;  ///< modelled seconds of all exchanges of the last step
  int64_t emulated_batch = 0;
};

/// The config and the plan at sizes that the emulator can run: `samples` per rank, and tables of at
/// most `rows` rows that are cut as in `plan`.
RunConfig emulated_config(const TimelineOptions& options);
Plan emulated_plan(const Plan& plan, const ModelConfig& from, const ModelConfig& to);

/// Trains in the emulator, with threads as ranks. Throws usage_error if the build has no emulator.
RecordedSteps record_steps(const RunConfig& config, const Plan& plan);

/// The operations and their dependencies, each collective as one. The order respects them.
struct TimelineGraph {
  std::vector<TimelineOperation> operations;
  std::vector<StepOperation> graph;
};
/// Bytes of the gradients of data-parallel tables.
struct SummedCopies {
  double recorded = 0;  ///< in the emulator
  double planned = 0;   ///< at the config's sizes
};
TimelineGraph timeline_graph(const RecordedSteps& steps, const SummedCopies& copies);

std::vector<LaunchCounts> count_launches(const RecordedSteps& steps, int ranks, int step);

TimelineResult run_timeline(const TimelineOptions& options);

std::string to_table(const TimelineOptions& options, const TimelineResult& result);
std::string to_json(const TimelineOptions& options, const TimelineResult& result);
/// One step of one rank as an SVG.
std::string to_figure(const TimelineOptions& options, const TimelineResult& result);

}  // namespace dlrm::bench
