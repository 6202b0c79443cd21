#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlrm::bench {

struct InferOptions {
  std::string checkpoint;           ///< a `step_*` folder, or one that has some
  std::vector<std::string> tables;  ///< fp32, bf16, int8
  std::vector<int64_t> batches;     ///< samples of a call of the model
  std::vector<double> rates;        ///< requests of one sample per second; infinite: no pauses
  int64_t batch_wait = 100;         ///< microseconds that a request waits for others
  int clients = 16;                 ///< threads that send requests
  double seconds = 1;               ///< of each figure
  int threads = 1;                  ///< that compute
  double memory_bytes = 0;          ///< that are available
};

/// Latencies of one series of calls or requests, and its rate.
struct InferPoint {
  int64_t calls = 0;
  double samples_per_second = 0;
  double p50_ms = 0, p99_ms = 0;
};

/// Figures of the model with its tables in one type.
struct InferModel {
  std::string tables;
  int64_t table_bytes = 0;
  int served_batches = 1;           ///< of requests, predicted at the same time
  std::vector<InferPoint> batches;  ///< for each of InferOptions::batches
  std::vector<InferPoint> rates;    ///< for each of InferOptions::rates
};

struct InferResult {
  std::string checkpoint;  ///< the `step_*` folder
  int64_t step = 0;
  std::vector<InferModel> models;
};

/// Times predictions of dlrm-infer's model on uniform ids. Batches are predicted one after another,
/// with all threads. Requests of one sample arrive at fixed times, whether earlier ones were
/// answered or not; they are put together, and threads divided among batches, as dlrm-infer does
/// it. Their latency counts from the time at which they should arrive.
InferResult run_infer(const InferOptions& options);

/// "1000,20000,max", rates of requests per second; max: as fast as the clients can.
std::vector<double> parse_rates(const std::string& text);
/// "fp32,bf16,int8,mapped": one or more of these. Both throw usage_error for anything else.
std::vector<std::string> parse_tables(const std::string& text);

std::string to_json(const InferOptions& options, const InferResult& result);
std::string to_table(const InferOptions& options, const InferResult& result);

}  // namespace dlrm::bench
