#include "counters.h"

#include <iterator>

#include <fmt/format.h>

namespace dlrm::serve {
namespace {

void add(std::string& text, const char* name, const char* type, const char* help) {
  fmt::format_to(std::back_inserter(text), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

void add(std::string& text, const char* name, const char* type, const char* help, int64_t value) {
  add(text, name, type, help);
  fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
}

}  // namespace

void Counters::add_request(int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[status];
  seconds_ += seconds;
  for (size_t i = 0; i < kBounds.size(); ++i) at_most_[i] += seconds <= kBounds[i] ? 1 : 0;
}

void Counters::add_refused(int status) {
  const std::lock_guard lock(mutex_);
  ++refused_[status];
}

void Counters::add_batch(int64_t samples) {
  const std::lock_guard lock(mutex_);
  ++batches_;
  samples_ += samples;
}

void Counters::add_reload(bool good) {
  const std::lock_guard lock(mutex_);
  ++(good ? reloads_ : failed_reloads_);
}

void Counters::add_connections(int change) {
  const std::lock_guard lock(mutex_);
  connections_ += change;
}

std::string Counters::text(const ModelState& model) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto out = std::back_inserter(text);
  int64_t all = 0;
  add(text, "dlrm_infer_requests_total", "counter", "Requests to predict, by status.");
  for (const auto& [status, count] : requests_) {
    fmt::format_to(out, "dlrm_infer_requests_total{{code=\"{}\"}} {}\n", status, count);
    all += count;
  }
  add(text, "dlrm_infer_request_seconds", "histogram", "From the end of a request to its answer.");
  for (size_t i = 0; i < kBounds.size(); ++i) {
    fmt::format_to(out, "dlrm_infer_request_seconds_bucket{{le=\"{}\"}} {}\n", kBounds[i],
                   at_most_[i]);
  }
  fmt::format_to(out,
                 "dlrm_infer_request_seconds_bucket{{le=\"+Inf\"}} {}\n"
                 "dlrm_infer_request_seconds_sum {}\ndlrm_infer_request_seconds_count {}\n",
                 all, seconds_, all);
  add(text, "dlrm_infer_refused_total", "counter",
      "Requests of any page that were refused before they were whole, by status.");
  for (const auto& [status, count] : refused_) {
    fmt::format_to(out, "dlrm_infer_refused_total{{code=\"{}\"}} {}\n", status, count);
  }
  add(text, "dlrm_infer_samples_total", "counter", "Samples predicted.", samples_);
  add(text, "dlrm_infer_batches_total", "counter", "Batches that they were computed in.", batches_);
  add(text, "dlrm_infer_connections", "gauge", "Open connections.", connections_);
  add(text, "dlrm_infer_model_step", "gauge", "Training steps of the model in use.", model.step);
  add(text, "dlrm_infer_table_bytes", "gauge", "Memory of its tables.", model.table_bytes);
  add(text, "dlrm_infer_reloads_total", "counter", "Newer checkpoints taken into use.", reloads_);
  add(text, "dlrm_infer_failed_reloads_total", "counter",
      "Newer checkpoints that could not be used.", failed_reloads_);
  return text;
}

}  // namespace dlrm::serve
