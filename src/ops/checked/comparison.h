#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "dlrm/core/error.h"
#include "dlrm/ops/types.h"

#include "reference/elements.h"

namespace dlrm::checked {

/// A matrix with its own memory, without gaps between rows.
class Copy {
 public:
  Copy(int64_t rows, int64_t cols, DType type)
      : bytes_(static_cast<size_t>(rows * cols) * size_of(type)),
        matrix_(bytes_.data(), type, rows, cols) {}
  Copy(const Copy& other) : bytes_(other.bytes_), matrix_(other.matrix_) {
    matrix_.data = bytes_.data();
  }
  Copy(Copy&&) = default;
  Copy& operator=(Copy&&) = default;

  /// |m| in fp32. m is in the host's memory.
  static Copy magnitude(const Matrix& m);
  static Copy empty_like(const Matrix& m, DType type);

  const Matrix& matrix() const { return matrix_; }
  MatrixView<float> floats() const { return matrix_.f32(); }
  double at(int64_t r, int64_t c) const { return reference::get(matrix_, r, c); }

 private:
  std::vector<char> bytes_;
  Matrix matrix_;
};

/// The operation that was run, for messages.
struct Subject {
  const char* operation;
  std::string shape;
  std::string execution;
};

[[noreturn]] void disagree(const Subject& subject, const std::string& element, double got,
                           double expected);

/// True if the values are equal, both NaN, or finite and differ by at most `allowed`.
inline bool agree(double got, double expected, double allowed) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  return std::isfinite(expected) && std::abs(got - expected) <= allowed;
}

/// The rounding error allowed at `value`: if two results round differently, half a unit in the last
/// place becomes a whole unit.
inline double rounding(DType type, double value) {
  const auto step = [type] {
    switch (type) {
      case DType::kFloat32:
        return 0x1p-22;
      case DType::kBFloat16:
        return 0x1p-7;
      case DType::kFloat16:
        return 0x1p-10;
    }
    return 0.0;
  };
  return step() * std::abs(value) + 1e-37;
}

/// Error of a sum of `terms` fp32 products whose magnitudes sum to `magnitude`.
inline double summing(int64_t terms, double magnitude) {
  return (8 + 2 * std::sqrt(static_cast<double>(terms))) * 0x1p-24 * magnitude;
}

/// The error of sums of `terms` products. `magnitude`: the reference's sums of their magnitudes.
inline auto sums(int64_t terms, const Copy& magnitude) {
  return [terms, &magnitude](int64_t r, int64_t c) { return summing(terms, magnitude.at(r, c)); };
}

/// Compares every element of `got` with `expected`. allowed(r, c) is the allowed difference in
/// addition to the rounding of the stored type.
template <class Allowed>
void expect_close(const Subject& subject, const char* what, const Matrix& got,
                  const Matrix& expected, const Allowed& allowed) {
  for (int64_t r = 0; r < expected.rows; ++r) {
    for (int64_t c = 0; c < expected.cols; ++c) {
      const double want = reference::get(expected, r, c);
      const double have = reference::get(got, r, c);
      if (agree(have, want, rounding(got.type, want) + allowed(r, c))) continue;
      disagree(subject, fmt::format("{} ({}, {})", what, r, c), have, want);
    }
  }
}

inline Matrix read_only(const MatrixView<const float>& m) {
  return {const_cast<float*>(m.data), DType::kFloat32, m.rows, m.cols, m.stride};
}

/// A vector of floats as a matrix of one row.
template <class T>
Matrix as_row(View<T> values) {
  auto* data = const_cast<float*>(values.data());
  return {data, DType::kFloat32, 1, static_cast<int64_t>(values.size())};
}

}  // namespace dlrm::checked
