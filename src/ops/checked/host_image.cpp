#include "checked/host_image.h"

namespace dlrm::checked {

void HostImage::bytes(void* to, const void* from, size_t count) {
  transfer_.to_host(to, from, count);
}

void HostImage::read(const Matrix& from, void* to) {
  if (size_of(from.type) == sizeof(float)) {
    transfer_.read_rows(static_cast<const float*>(from.data), from.stride, from.rows, from.cols,
                        static_cast<float*>(to));
  } else {
    transfer_.read_rows(static_cast<const uint16_t*>(from.data), from.stride, from.rows, from.cols,
                        static_cast<uint16_t*>(to));
  }
}

Copy HostImage::of(const Matrix& m) {
  Copy copy(m.rows, m.cols, m.type);
  if (m.rows <= 0 || m.cols <= 0) return copy;
  if (m.stride > 0) {
    read(m, copy.matrix().data);
    return copy;
  }
  return rows(m, std::vector<int64_t>(static_cast<size_t>(m.rows)));  // row 0, repeatedly
}

Copy HostImage::rows(const Matrix& table, const std::vector<int64_t>& listed) {
  Copy copy(static_cast<int64_t>(listed.size()), table.cols, table.type);
  for (size_t i = 0; i < listed.size() && table.cols > 0; ++i) {
    read(table.row_range(listed[i], 1), copy.matrix().element(static_cast<int64_t>(i), 0));
  }
  return copy;
}

HostStep::HostStep(HostImage& host, const OptimizerStep& step) : step_(step) {
  if (step.skip_update) {
    host.bytes(&skip_update_, step.skip_update, sizeof(skip_update_));
    step_.skip_update = &skip_update_;
  }
  if (!step.device_hyperparams) return;
  StepHyperparams now;
  host.bytes(&now, step.device_hyperparams, sizeof(now));
  step_.lr = now.lr;
  step_.correction1 = now.correction1;
  step_.correction2 = now.correction2;
  step_.device_hyperparams = nullptr;
}

}  // namespace dlrm::checked
