#pragma once
#include <deque>
#include <string>
#include <vector>

#include "dlrm/ops/operation.h"

#include "checked/comparison.h"
#include "checked/host_image.h"

namespace dlrm::checked {

/// A result of an operation as numbers, in row-major order.
struct Result {
  const char* name = nullptr;
  Tolerance tolerance;
  int64_t cols = 0;
  std::vector<double> values;
  double rounding = 0;  ///< relative rounding error of the stored type
};

/// Throws for the first element of `got` that differs from `want` by more than its tolerance.
/// `sizes` holds the same sums over magnitudes, `before` the previous content of the results.
void compare(const Subject& subject, const std::vector<Result>& got,
             const std::vector<Result>& want, const std::vector<Result>& sizes,
             const std::vector<Result>& before);

Result result_of(const char* name, const Tolerance& tolerance, const Matrix& m);
template <class T>
Result result_of(const char* name, const Tolerance& tolerance, View<T> values) {
  Result result{name, tolerance, static_cast<int64_t>(values.size()), {}, 0};
  for (const T& value : values) result.values.push_back(static_cast<double>(value));
  if constexpr (std::is_same_v<T, float>) result.rounding = rounding(DType::kFloat32, 1);
  return result;
}

std::string shape_of(const Matrix& m);
template <class T>
std::string shape_of(View<T> values) {
  return fmt::format("[{}]", values.size());
}
template <class T>
std::string shape_of(const MatrixView<T>& m) {
  return shape_of(read_only(m));
}

/// An operation on matrices and views of numbers, with copies of its operands in the host's memory.
template <class Operation>
class HostOperation {
 public:
  /// Copies all operands. An operation may leave a part of its results as it was.
  HostOperation(HostImage& host, const Operation& operation) : HostOperation(operation) {
    replace([&](auto& operand) { keep(operand, host.of(operand)); });
  }
  /// The same operation on the magnitudes of its operands, in fp32.
  HostOperation magnitudes() const {
    HostOperation sizes(operation_);
    sizes.replace([&](auto& operand) { sizes.keep_magnitude(operand); });
    return sizes;
  }

  const Operation& operator*() const { return operation_; }

  std::string shape() const {
    std::string shape;
    visit([&](const char* name, Role, const auto& operand, const Tolerance&) {
      shape += fmt::format("{}{} {}", shape.empty() ? "" : ", ", name, shape_of(operand));
    });
    return shape;
  }
  std::vector<Result> results() const {
    std::vector<Result> all;
    visit([&](const char* name, Role role, const auto& operand, const Tolerance& tolerance) {
      if constexpr (requires { result_of(name, tolerance, operand); }) {
        if (role != Role::kIn) all.push_back(result_of(name, tolerance, operand));
      }
    });
    return all;
  }

 private:
  explicit HostOperation(const Operation& operation) : operation_(operation) {}

  template <class Visit>
  void visit(const Visit& each) const {
    EachOperand operands{each};
    Operation(operation_).operands(operands);
  }
  template <class Replace>
  void replace(const Replace& with) {
    EachOperand operands{
        [&](const char*, Role, auto& operand, const Tolerance&) { with(operand); }};
    operation_.operands(operands);
  }

  void keep(Matrix& m, Copy copy) {
    if (m.data) m = matrices_.emplace_back(std::move(copy)).matrix();
  }
  template <class T>
  void keep(MatrixView<T>& m, Copy copy) {
    m = matrices_.emplace_back(std::move(copy)).floats();
  }
  template <class T, class Values>
  void keep(View<T>& view, const Values& values) {
    using Number = std::remove_const_t<T>;
    std::vector<char>& bytes = views_.emplace_back(values.size() * sizeof(Number));
    auto* to = reinterpret_cast<Number*>(bytes.data());
    std::copy(values.begin(), values.end(), to);
    view = {to, values.size()};
  }

  void keep_magnitude(Matrix& m) { keep(m, Copy::magnitude(m)); }
  template <class T>
  void keep_magnitude(MatrixView<T>& m) {
    keep(m, Copy::magnitude(read_only(m)));
  }
  /// Operations whose sums have terms of a view are compared elsewhere.
  template <class T>
  void keep_magnitude(View<T>& view) {
    keep(view, view);
  }

  Operation operation_;
  std::deque<Copy> matrices_;  // the operands of operation_
  std::deque<std::vector<char>> views_;
};

}  // namespace dlrm::checked
