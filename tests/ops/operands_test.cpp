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

}  // namespace
}  // namespace dlrm
