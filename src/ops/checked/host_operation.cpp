#include "checked/host_operation.h"

namespace dlrm::checked {

Result result_of(const char* name, const Tolerance& tolerance, const Matrix& m) {
  Result result{name, tolerance, m.cols, {}, rounding(m.type, 1)};
  result.values.reserve(static_cast<size_t>(m.rows * m.cols));
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) result.values.push_back(reference::get(m, r, c));
  }
  return result;
}

std::string shape_of(const Matrix& m) {
  return fmt::format("[{} x {}] in {}", m.rows, m.cols, name_of(m.type));
}

void compare(const Subject& subject, const std::vector<Result>& got,
             const std::vector<Result>& want, const std::vector<Result>& sizes,
             const std::vector<Result>& before) {
  for (size_t k = 0; k < want.size(); ++k) {
    const Tolerance& t = want[k].tolerance;
    for (size_t i = 0; i < want[k].values.size(); ++i) {
      const double expected = want[k].values[i];
      const double sum = t.terms > 0 ? summing(t.terms, sizes[k].values[i]) : 0.0;
      const double allowed = got[k].rounding * std::abs(expected) + 1e-37 + sum + t.absolute +
                             t.relative * std::abs(expected) +
                             t.initial * std::abs(before[k].values[i]);
      if (agree(got[k].values[i], expected, allowed)) continue;
      const auto at = static_cast<int64_t>(i);
      disagree(subject,
               fmt::format("{} ({}, {})", want[k].name, at / want[k].cols, at % want[k].cols),
               got[k].values[i], expected);
    }
  }
}

}  // namespace dlrm::checked
