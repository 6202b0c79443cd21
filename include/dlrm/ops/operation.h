#pragma once
#include <cstdint>

#include "dlrm/core/view.h"

// How operations are described. An operation is a struct of its arguments:
//
//   struct CrossForward {
//     Matrix x0, u, x, y;
//
//     static constexpr const char* kName = "cross_forward";
//     template <class V>
//     void operands(V& v) {
//       v.in("x0", x0), v.in("u", u), v.in("x", x), v.out("y", y, sum_of(2));
//     }
//   };
//
// `operands` shows a visitor each argument that refers to device memory: v.in(name, operand) is
// read, v.out is written, v.inout is both. A visitor may replace an operand by a copy of it.
// v.value(view) is the first element of a view of integers that the operation reads, wherever it
// lies. The names appear in messages. An operand that the operation does not touch is not shown.
//
// Executions that forward or check operations are written once over these descriptions.

namespace dlrm {

/// The error that a result may have relative to the reference, beyond one rounding to its type.
/// The parts add up.
struct Tolerance {
  int64_t terms = 0;    ///< of a sum of this many fp32 products, relative to the sum of magnitudes
  double absolute = 0;  ///< absolute error
  double relative = 0;  ///< relative to the magnitude of the result
  double initial = 0;   ///< relative to the magnitude of the operand's value before the operation
};

/// No error beyond one rounding to the type of the result.
inline constexpr Tolerance kRounded = {};
constexpr Tolerance sum_of(int64_t terms) { return {.terms = terms}; }

enum class Role : uint8_t { kIn, kOut, kInOut };

/// A visitor that calls visit(name, role, operand, tolerance) for every operand. It suits operands
/// that the host can read.
template <class Visit>
struct EachOperand {
  Visit visit;

  template <class T>
  void in(const char* name, T& operand) {
    visit(name, Role::kIn, operand, kRounded);
  }
  template <class T>
  void out(const char* name, T& operand, const Tolerance& tolerance = kRounded) {
    visit(name, Role::kOut, operand, tolerance);
  }
  template <class T>
  void inout(const char* name, T& operand, const Tolerance& tolerance = kRounded) {
    visit(name, Role::kInOut, operand, tolerance);
  }
  template <class T>
  auto value(View<T> view) {
    return view[0];
  }
};
template <class Visit>
EachOperand(Visit) -> EachOperand<Visit>;

}  // namespace dlrm
