#pragma once
#include <type_traits>
#include <vector>

#include "dlrm/device/transfer.h"
#include "dlrm/ops/types.h"

#include "checked/comparison.h"

namespace dlrm::checked {

/// Copies of operands in the host's memory, for the reference. A device may have separate memory. A
/// copy is made after the work queued on the stream so far.
class HostImage {
 public:
  HostImage(Device& device, Stream& stream) : transfer_(device, stream) {}

  Copy of(const Matrix& m);
  Copy of(const MatrixView<const float>& m) { return of(read_only(m)); }
  Copy of(const MatrixView<float>& m) { return of(Matrix(m)); }

  template <class T>
  std::vector<std::remove_const_t<T>> of(View<T> values) {
    return list(values.data(), static_cast<int64_t>(values.size()));
  }
  /// Returns an empty list if `from` is null.
  template <class T>
  std::vector<std::remove_const_t<T>> list(T* from, int64_t count) {
    std::vector<std::remove_const_t<T>> copy(from ? static_cast<size_t>(count) : 0);
    if (!copy.empty()) bytes(copy.data(), from, copy.size() * sizeof(T));
    return copy;
  }
  /// The rows of `table` whose numbers are given, in that order.
  Copy rows(const Matrix& table, const std::vector<int64_t>& listed);
  void bytes(void* to, const void* from, size_t count);

 private:
  void read(const Matrix& from, void* to);

  Transfer transfer_;
};

/// An optimizer step whose constants are in the host's memory.
class HostStep {
 public:
  HostStep(HostImage& host, const OptimizerStep& step);
  HostStep(const HostStep&) = delete;
  HostStep& operator=(const HostStep&) = delete;
  const OptimizerStep& operator*() const { return step_; }

 private:
  OptimizerStep step_;
  float skip_update_ = 0;
};

}  // namespace dlrm::checked
