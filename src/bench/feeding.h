#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm::bench {

struct FeedingOptions {
  std::string config_path;
  std::vector<std::string> set;  ///< replaces keys of the config, in every run
  std::string data;              ///< a log in Criteo's format
  std::string folder;            ///< for datasets and runs; a temporary one if empty
  int64_t rows = 100000;         ///< of every table
  int workers = 0;               ///< data.workers from the second step on; 0: one per CPU
  int rounds = 1;
};

/// One way to feed a run with data, and what was measured of it.
struct FeedingStep {
  std::string name;
  std::vector<std::string> set = {};  ///< keys, as a user would set them
  double prepare_seconds = 0;         ///< to make its dataset from that of the step before

  std::vector<double> samples_per_second = {};  ///< of each round
  std::vector<double> busy_shares = {};  ///< of each round: on a CPU 1 - the share waited for data
  int64_t batch = 0;                     ///< global
  int64_t samples = 0;                   ///< of an epoch

  double rate() const;  ///< median samples/s
  double busy() const;  ///< median share
  double minutes_per_epoch() const { return static_cast<double>(samples) / rate() / 60; }
  /// Runs of one epoch, without evaluations, in a day.
  double trials_per_day() const { return 24 * 60 / minutes_per_epoch(); }
};

struct FeedingResult {
  std::string device;
  std::vector<FeedingStep> steps;
};

/// Trains one epoch on the log with each way to feed it, in turn: text parsed in the training
/// thread, text parsed by workers, a binary dataset, the largest batch that fits the memory, and
/// that batch with samples shuffled while they are read, and before. Runs the programs dlrm-train
/// and dlrm-data of `programs`, a folder. A program that fails is a run_error with its last line.
FeedingResult run_feeding(const FeedingOptions& options, const std::string& programs);

std::string to_json(const FeedingOptions& options, const FeedingResult& result);
std::string to_table(const FeedingOptions& options, const FeedingResult& result);

}  // namespace dlrm::bench
