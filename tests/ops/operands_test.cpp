// The descriptions of operations, from which executions copy and check their operands.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "checked_cases.h"
#include "fixture.h"
#include "ops/reference/elements.h"
#include "ops/reference/reference_ops.h"

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

/// Cases of every operation on memory of which nothing but the operands can be read. An operand
/// that is an input must keep its content, and each other one must change in a case.
TEST(Operands, AreOutputsIfOperationsWriteThem) {
  std::shared_ptr<Device> device = make_guarded_device(1);
  auto stream = device->make_stream();
  auto checked = make_checked_ops(make_reference_ops(*device, *stream), *device, *stream);
  Outputs outputs;
  const auto ops = make_mirrored_ops(device, std::move(stream), std::move(checked), &outputs);
  for (const CheckedCase& one : checked_cases()) EXPECT_NO_THROW(one.run(*ops)) << one.name;
  EXPECT_EQ(outputs.declared, outputs.written);
  std::set<std::string> run, all;
  for (const std::string& output : outputs.declared) run.insert(output.substr(0, output.find(':')));
#define DLRM_ADD_NAME(Operation) all.insert(Operation::kName);
  DLRM_OPERATIONS(DLRM_ADD_NAME)
  DLRM_SEQUENCES(DLRM_ADD_NAME)
#undef DLRM_ADD_NAME
  EXPECT_EQ(run, all);
}

struct WritesAnInput final : reference::ReferenceOps {
  using ReferenceOps::run;
  void run(const Convert& o) override {
    ReferenceOps::run(o);
    reference::set(o.x, 2, 4, 7);
  }
};

TEST(Operands, OfACopyAreFoundIfTheyAreInputsThatChange) {
  const Machine machine;
  const auto ops = make_mirrored_ops(machine.device, machine.device->make_stream(),
                                     std::make_unique<WritesAnInput>());
  Cells x(3, 5), y(3, 5);
  try {
    ops->convert(x.matrix(), y.matrix());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'x'"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(ops->convert(x.matrix(), x.matrix())) << "the operand is an output as well";
}

}  // namespace
}  // namespace dlrm
