#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/config/run_config.h"
#include "dlrm/embedding/cache_counters.h"
#include "dlrm/embedding/record_rate.h"

namespace dlrm::bench {

struct CacheOptions {
  std::string config_path;
  RunConfig config;
  std::vector<double> shares;         ///< of the cached tables in fast memory, in percent
  std::vector<std::string> policies;  ///< of memory.cached.policy
  bool whole_step = false;            ///< otherwise only lookups and updates
  double seconds = 60;                ///< of each figure
  double warm_up = 20;                ///< seconds before each figure
};

/// The entries of all tables in the order of their accesses.
struct AccessCounts {
  int64_t accesses = 0;
  int64_t entries = 0;
  /// The share of accesses of the hottest 10^-5, 10^-4.5, ..., 1 of the entries.
  std::vector<double> fractions, shares;
};

/// Timed training.
struct CacheSpeed {
  int64_t steps = 0;
  int64_t samples = 0;
  double seconds = 0;
  double cpu_seconds = 0;  ///< of all threads, in these seconds

  double samples_per_second() const { return static_cast<double>(samples) / seconds; }
};

/// Training with one fast tier and policy.
struct CachePoint {
  std::string policy;  ///< empty: all tables resident
  double share = 100;  ///< percent
  double fast_bytes = 0;
  CacheSpeed speed;
  CacheSpeed resident;  ///< of the same batches with resident tables, in turn with `speed`
  CacheCounters cache;
  /// The highest ratio to resident tables that the SSD's random reads allow; 1 without one.
  double limit = 1;
  /// The same, if all usable cores also do the reads and writes, and nothing else is in the way. 0
  /// on a GPU.
  double cpu_limit = 0;

  double ratio() const { return speed.samples_per_second() / resident.samples_per_second(); }
};

struct CacheResult {
  int threads = 1;
  std::string chain;  ///< of tiers
  double table_bytes = 0;
  RecordRate ssd;  ///< what the SSD does with records; zeros without one
  AccessCounts accesses;
  std::vector<CachePoint> points;  ///< the first is resident, during all others
};

/// Times training with cached tables at each share and policy, in turn with resident tables: after
/// some tenths of a second the other one goes on, so that other load slows down both. Every record
/// is in a slot or in the slower tier beforehand. Samples are made between timed parts. One rank.
CacheResult run_cache(Communicator& comm, const CacheOptions& options);

/// Parses "1..10" (whole percents) or "10,75". Throws usage_error for anything else.
std::vector<double> parse_shares(const std::string& text);

std::string to_json(const CacheOptions& options, const CacheResult& result);
std::string to_table(const CacheOptions& options, const CacheResult& result);

}  // namespace dlrm::bench
