#include "checked/comparison.h"

namespace dlrm::checked {

Copy Copy::magnitude(const Matrix& m) {
  Copy copy(m.rows, m.cols, DType::kFloat32);
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) {
      reference::set(copy.matrix_, r, c, std::abs(reference::get(m, r, c)));
    }
  }
  return copy;
}

Copy Copy::empty_like(const Matrix& m, DType type) { return Copy(m.rows, m.cols, type); }

void disagree(const Subject& subject, const std::string& element, double got, double expected) {
  throw run_error(
      "check: {} {} by '{}' disagrees with the reference: {} is {:.9g}, expected {:.9g}",
      subject.operation, subject.shape, subject.execution, element, got, expected);
}

}  // namespace dlrm::checked
