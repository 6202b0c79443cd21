#include "limits.h"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <omp.h>

#include "machine_text.h"
#include "matrix_rates.h"
#include "memory_rates.h"

namespace dlrm::bench {
namespace {

nlohmann::ordered_json number(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

double Limits::sgemm() const {
  return std::max(onednn_sgemm.value_or(0), openblas_sgemm.value_or(0));
}

Limits measure_limits(const LimitOptions& options) {
  omp_set_num_threads(options.threads);
  Limits limits;
  limits.onednn_sgemm = onednn_sgemm_rate(options.size, options.seconds);
  limits.openblas_sgemm = openblas_sgemm_rate(options.size, options.seconds, options.threads);
  limits.onednn_bf16 = onednn_bf16_rate(options.size, options.seconds);
  const MemoryRates memory = measure_memory(options.megabytes, options.seconds, options.threads);
  limits.triad = memory.triad;
  limits.triad_streaming = memory.triad_streaming;
  limits.read = memory.read;
  limits.random_rows = memory.random_rows;
  return limits;
}

std::string to_json(const LimitOptions& options, const Limits& limits) {
  nlohmann::ordered_json object;
  object["processor"] = processor_name();
  object["threads"] = options.threads;
  object["matrix_size"] = options.size;
  object["array_megabytes"] = options.megabytes;
  object["gflops"] = {{"sgemm", limits.sgemm()},
                      {"onednn_sgemm", number(limits.onednn_sgemm)},
                      {"openblas_sgemm", number(limits.openblas_sgemm)},
                      {"onednn_bf16", number(limits.onednn_bf16)}};
  object["gb_per_second"] = {{"triad", limits.triad},
                             {"triad_streaming", limits.triad_streaming},
                             {"read", limits.read},
                             {"random_rows", limits.random_rows}};
  return object.dump(2) + "\n";
}

}  // namespace dlrm::bench
