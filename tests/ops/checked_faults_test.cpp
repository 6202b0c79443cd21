// Operations of which one result is wrong: the checked execution names it.
#include <functional>

#include "bags.h"
#include "error_of.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {
namespace {

/// The reference, after which `spoil` changes a result of an Operation.
template <class Operation>
class Spoilt final : public reference::ReferenceOps {
 public:
  explicit Spoilt(std::function<void(const Operation&)> spoil) : spoil_(std::move(spoil)) {}
  std::string name() const override { return "spoilt"; }
  using ReferenceOps::run;
  void run(const Operation& o) override {
    ReferenceOps::run(o);
    spoil_(o);
  }

 private:
  std::function<void(const Operation&)> spoil_;
};

/// The error of `call` on checked operations of which Operation is spoilt. Empty without one.
template <class Operation>
std::string error_of_spoilt(std::function<void(const Operation&)> spoil,
                            const std::function<void(Ops&)>& call) {
  Machine machine;
  auto checked = make_checked_ops(std::make_unique<Spoilt<Operation>>(std::move(spoil)),
                                  *machine.device, *machine.stream);
  return error_of([&] { call(*checked); });
}

/// The error must name `element`. Without an element there must be no error.
void expect_found(const std::string& error, const std::string& element) {
  if (element.empty()) {
    EXPECT_EQ(error, "");
    return;
  }
  EXPECT_NE(error.find(element), std::string::npos) << element << ": " << error;
}

TEST(CheckedFaults, AWrongValueBesideALargeBiasIsFound) {
  Cells x = Cells::random(2, 4, 1, DType::kBFloat16), w = Cells::random(3, 4, 2, DType::kBFloat16);
  Cells y(2, 3, DType::kBFloat16);
  const std::vector<float> bias = {256, 0, 0};
  for (const bool wrong : {false, true}) {
    const std::string error = error_of_spoilt<LinearForward>(
        [&](const LinearForward& o) {
          auto* value = static_cast<BFloat16*>(o.y.element(0, 2));
          if (wrong) *value = BFloat16(static_cast<float>(*value) + 0.5f);
        },
        [&](Ops& o) {
          o.linear_forward(x.matrix(), w.matrix(), bias, Activation::kNone, y.matrix(), {});
        });
    expect_found(error, wrong ? "y (0, 2)" : "");
  }
}

TEST(CheckedFaults, AWrongSumOfBlocksBesideAnInfiniteOneIsFound) {
  for (const bool wrong : {false, true}) {
    std::vector<float> from = {1, INFINITY, 3}, to(3, 1);
    BlockCopy block;
    block.src = from.data(), block.dst = to.data(), block.rows = 1, block.accumulate = true;
    block.cols = block.src_stride = block.dst_stride = 3;
    const std::string error =
        error_of_spoilt<CopyBlocks>([&](const CopyBlocks&) { to[2] += wrong ? 1.0f : 0.0f; },
                                    [&](Ops& o) {
                                      o.copy_blocks({&block, 1});
                                    });
    expect_found(error, wrong ? "dst (0, 2)" : "");
  }
}

TEST(CheckedFaults, AWrongRowOfManyThatAreFilledIsFound) {
  Table table(9000, 3, DType::kFloat32, 1);
  const auto fill = [&](Ops& o) { o.fill_rows(3, 5, 2, {InitType::kUniform, 0.5f}, table.rows()); };
  for (const int64_t row : {int64_t{-1}, int64_t{0}, int64_t{4095}, int64_t{4096}, int64_t{8999}}) {
    const std::string error = error_of_spoilt<FillRows>(
        [&](const FillRows& o) {
          if (row >= 0) static_cast<float*>(o.table.weights)[row * o.table.stride + 2] += 1e-3f;
        },
        fill);
    expect_found(error, row < 0 ? "" : fmt::format("({}, 2) is ", row));
  }
}

/// The reference with the values of a step that are in the device's memory, as on a GPU.
class FromDevice final : public reference::ReferenceOps {
 public:
  using ReferenceOps::run;
  void run(const DenseUpdate& o) override {
    DenseUpdate now = o;
    now.step.lr = o.step.device_hyperparams->lr;
    now.step.correction1 = o.step.device_hyperparams->correction1;
    now.step.correction2 = o.step.device_hyperparams->correction2;
    ReferenceOps::run(now);
  }
};

TEST(CheckedFaults, ValuesOfAStepInTheDevicesMemoryAreUsed) {
  Machine machine;
  for (int changed = 0; changed < 3; ++changed) {
    OptimizerStep step = step_of(OptimizerRule::kAdam);
    StepHyperparams now{step.lr, step.correction1, step.correction2, 1};
    if (changed == 0) now.lr *= 2;
    if (changed == 1) now.correction1 *= 2;
    if (changed == 2) now.correction2 *= 2;
    step.device_hyperparams = &now;
    for (const bool reads : {true, false}) {
      auto chosen = reads ? std::unique_ptr<Ops>(std::make_unique<FromDevice>())
                          : std::make_unique<reference::ReferenceOps>();
      auto checked = make_checked_ops(std::move(chosen), *machine.device, *machine.stream);
      std::vector<float> w(40, 1.0f), g(40, 0.5f), s1(40, 0.25f), s2(40, 0.25f);
      const auto update = [&] { checked->dense_update(step, w, g, s1, s2, {}); };
      if (reads) {
        EXPECT_NO_THROW(update()) << changed;
      } else {
        EXPECT_THROW(update(), Error) << changed;
      }
    }
  }
}

}  // namespace
}  // namespace dlrm
