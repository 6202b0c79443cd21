#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/config/run_config.h"
#include "dlrm/device/utilisation.h"

namespace dlrm::bench {

struct SweepOptions {
  std::string config_path;
  RunConfig config;
  std::vector<int64_t> batches;  ///< global batch sizes
  int64_t samples = 10000;       ///< trained on in each repeat
  int repeats = 10;
};

/// Mean, spread (sample standard deviation) and bounds of a few numbers.
struct Spread {
  double mean = 0;
  double deviation = 0;
  double least = 0;
  double most = 0;
};
Spread spread_of(const std::vector<double>& values);

/// The results of one batch size.
struct SweepPoint {
  int64_t batch = 0;
  int64_t steps = 0;                     ///< of one repeat
  std::vector<double> seconds;           ///< of each repeat, the training loop alone
  std::vector<double> core_utilization;  ///< of each CPU of the machine, all processes, 0 to 1
  double process_utilization = 0;        ///< this process: CPU time over elapsed time and threads
  int64_t resident_bytes = 0;            ///< at the end of the last repeat
  std::map<std::string, double> stages_ms;  ///< mean of each stage per step
  std::optional<Utilisation> gpu;  ///< from its driver, over the timed loops; none if short
  int64_t recorded_steps = 0;      ///< of the last repeat, launched as graphs
  bool asynchronous = false;       ///< the host does not time the device's stages

  /// Share of the stages' time that moves data and vectors instead of computing. Empty on an
  /// asynchronous device, because the host does not time its stages.
  std::optional<double> moving_share() const;
};

struct SweepResult {
  int threads = 1;
  std::string device;
  std::vector<SweepPoint> points;
};

/// True for a stage that moves data: reading batches, routing ids, fetching rows, exchanges.
bool moves_data(const std::string& stage);

/// Trains on the same first samples at each batch size. Batches are loaded beforehand. Every repeat
/// starts from fresh weights. On a CPU one step before each repeat is not timed. On a device passes
/// over all batches are not timed until as many steps as possible are launched as graphs. One rank.
SweepResult run_batch_sweep(Communicator& comm, const SweepOptions& options);

/// Parses "8..1024" (doubling from the first to the last) or "8,32,100". Throws usage_error for
/// anything else.
std::vector<int64_t> parse_batches(const std::string& text);

std::string to_json(const SweepOptions& options, const SweepResult& result);
std::string to_table(const SweepOptions& options, const SweepResult& result);

}  // namespace dlrm::bench
