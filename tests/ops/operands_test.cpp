// The descriptions of operations, from which executions copy and check their operands.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "dlrm/ops/ops.h"

namespace dlrm {
namespace {

/// Counts the operands that an operation shows.
struct ShownOperands {
  template <class T>
  void in(const char* name, T& operand) {
    add(name, operand);
  }
  template <class T>
  void out(const char* name, T& operand, const Tolerance& = kRounded) {
    add(name, operand);
  }
  template <class T>
  void inout(const char* name, T& operand, const Tolerance& = kRounded) {
    add(name, operand);
  }
  template <class T>
  auto value(View<T>) {
    return std::remove_const_t<T>{};
  }

  template <class T>
  void add(const char* name, T& operand) {
    ++count;
    names.insert(name);
    places.insert(&operand);
  }

  size_t count = 0;
  std::set<std::string> names;
  std::set<const void*> places;
};

template <class Operation>
void expect_distinct_operands() {
  SCOPED_TRACE(Operation::kName);
  Operation operation{};
  ShownOperands shown;
  operation.operands(shown);
  EXPECT_EQ(shown.names.size(), shown.count);
  EXPECT_EQ(shown.places.size(), shown.count);
}

TEST(Operands, AreShownOnceAndHaveTheirOwnNames) {
#define DLRM_EXPECT_DISTINCT(Operation) expect_distinct_operands<Operation>();
  DLRM_OPERATIONS(DLRM_EXPECT_DISTINCT)
#undef DLRM_EXPECT_DISTINCT
}

/// The names of what an operation with this activation shows.
template <class Operation>
std::set<std::string> shown_with(Activation act) {
  Operation operation{};
  operation.act = act;
  ShownOperands shown;
  operation.operands(shown);
  return shown.names;
}

/// An execution copies what is shown. A gradient reads z or y, never the other.
TEST(Operands, OfAnActivationAreThoseThatItReads) {
  using Names = std::set<std::string>;
  for (const Activation act : {Activation::kRelu, Activation::kSigmoid, Activation::kTanh}) {
    EXPECT_EQ(shown_with<ActivationBackward>(act), (Names{"y", "dy"}));
    EXPECT_EQ(shown_with<LinearForward>(act), (Names{"bias", "rounded bias", "w", "x", "y"}));
    EXPECT_EQ(shown_with<LinearBackward>(act), (Names{"dbias", "dw", "dy", "w", "x", "y"}));
  }
  for (const Activation act : {Activation::kGelu, Activation::kSilu}) {
    EXPECT_EQ(shown_with<ActivationBackward>(act), (Names{"z", "dy"}));
    EXPECT_EQ(shown_with<LinearForward>(act), (Names{"bias", "rounded bias", "w", "x", "y", "z"}));
    EXPECT_EQ(shown_with<LinearBackward>(act), (Names{"dbias", "dw", "dy", "w", "x", "y", "z"}));
  }
  EXPECT_EQ(shown_with<ActivationBackward>(Activation::kNone), (Names{"dy"}));
  EXPECT_EQ(shown_with<LinearForward>(Activation::kNone),
            (Names{"bias", "rounded bias", "w", "x", "y"}));
  EXPECT_EQ(shown_with<LinearBackward>(Activation::kNone), (Names{"dbias", "dw", "dy", "w", "x"}));
}

}  // namespace
}  // namespace dlrm
