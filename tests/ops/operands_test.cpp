// The descriptions of operations, from which executions copy and check their operands.
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checked_cases.h"
#include "error_of.h"
#include "fixture.h"
#include "ops/reference/elements.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {
namespace {

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
  EXPECT_THAT(error_of([&] { ops->convert(x.matrix(), y.matrix()); }), ::testing::HasSubstr("'x'"));
  EXPECT_NO_THROW(ops->convert(x.matrix(), x.matrix())) << "the operand is an output as well";
}

}  // namespace
}  // namespace dlrm
