#pragma once
#include <cstdint>
#include <span>
#include <type_traits>

#include "dlrm/core/dtype.h"

namespace dlrm {

/// Consecutive elements that the view does not own. Passed by value.
template <class T>
using View = std::span<T>;

/// Rows of equal length, `stride` elements apart. Passed by value; owns nothing.
template <class T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  MatrixView() = default;
  MatrixView(T* data, int64_t rows, int64_t cols) : MatrixView(data, rows, cols, cols) {}
  MatrixView(T* data, int64_t rows, int64_t cols, int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  /// Converts a writable view to a read-only view.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) MatrixView(MatrixView<U> other)
      : data(other.data), rows(other.rows), cols(other.cols), stride(other.stride) {}

  T* row(int64_t r) const { return data + r * stride; }
  T& operator()(int64_t r, int64_t c) const { return data[r * stride + c]; }
  MatrixView columns(int64_t begin, int64_t count) const {
    return {data + begin, rows, count, stride};
  }
  MatrixView row_range(int64_t begin, int64_t count) const {
    return {data + begin * stride, count, cols, stride};
  }
};

/// A matrix whose element type is known only at run time: activations and weights in the precision
/// of the run.
struct Matrix {
  void* data = nullptr;
  DType type = DType::kFloat32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  ///< in elements

  Matrix() = default;
  Matrix(void* data, DType type, int64_t rows, int64_t cols)
      : data(data), type(type), rows(rows), cols(cols), stride(cols) {}
  Matrix(void* data, DType type, int64_t rows, int64_t cols, int64_t stride)
      : data(data), type(type), rows(rows), cols(cols), stride(stride) {}
  Matrix(MatrixView<float> m)
      : data(m.data), type(DType::kFloat32), rows(m.rows), cols(m.cols), stride(m.stride) {}

  void* element(int64_t r, int64_t c) const {
    return static_cast<char*>(data) + (r * stride + c) * static_cast<int64_t>(size_of(type));
  }
  Matrix columns(int64_t begin, int64_t count) const {
    return {element(0, begin), type, rows, count, stride};
  }
  Matrix row_range(int64_t begin, int64_t count) const {
    return {element(begin, 0), type, count, cols, stride};
  }
  /// The float view. The type must be kFloat32.
  MatrixView<float> f32() const { return {static_cast<float*>(data), rows, cols, stride}; }
};

}  // namespace dlrm
