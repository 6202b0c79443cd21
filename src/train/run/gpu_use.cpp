#include "dlrm/train/gpu_use.h"

#include <algorithm>

namespace dlrm {

GpuUse::GpuUse(std::unique_ptr<UtilisationProbe> probe) : probe_(std::move(probe)) {}

void GpuUse::begin(double now) { due_ = now + kInterval; }

void GpuUse::sample(double now) {
  if (!probe_ || now < due_) return;
  due_ = now + kInterval;
  const std::optional<Utilisation> read = probe_->read();
  if (!read) return;
  ++readings_;
  sums_.busy_share += read->busy_share;
  sums_.memory_busy_share += read->memory_busy_share;
  sums_.memory_used = std::max(sums_.memory_used, read->memory_used);
  sums_.memory_total = read->memory_total;
}

std::optional<Utilisation> GpuUse::mean() const {
  if (readings_ == 0) return std::nullopt;
  Utilisation mean = sums_;
  mean.busy_share /= static_cast<double>(readings_);
  mean.memory_busy_share /= static_cast<double>(readings_);
  return mean;
}

}  // namespace dlrm
