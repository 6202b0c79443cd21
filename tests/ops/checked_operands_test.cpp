// The checked execution copies operands of every form, and allows each result its rounding error.
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>

#include "dlrm/device/transfer.h"

#include "bags.h"
#include "ops/checked/comparison.h"
#include "ops/checked/host_operation.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {
namespace {

using checked::agree;
using checked::rounding;
using checked::summing;

/// Checked operations of the reference, which must agree with itself to the bit.
struct SelfChecked {
  Machine machine;
  std::unique_ptr<Ops> ops =
      make_checked_ops(machine.reference(), *machine.device, *machine.stream);
  Ops& operator*() const { return *ops; }
  Ops* operator->() const { return ops.get(); }
};

TEST(CheckedOperands, BagsMayStartBehindOtherIdsAndBeScaled) {
  SelfChecked checked;
  Table table(20, 5, DType::kFloat32, 1), narrow(20, 5, DType::kBFloat16, 2);
  std::vector<int64_t> ids = {-1, 99, 7, 0, 19, 7, 3, 1 << 30};
  std::vector<int64_t> offsets = {2, 4, 4, 7};
  std::vector<float> scale = {0.5f, 3, -0.25f};
  Cells pooled(3, 5), again(3, 5);
  BagGroup groups[3];
  groups[0].table = table.rows(), groups[2].table = narrow.rows();
  groups[0].pooled = pooled.floats(), groups[2].pooled = again.floats();
  for (const size_t i : {size_t{0}, size_t{2}}) {
    groups[i].ids = ids.data(), groups[i].offsets = offsets.data(), groups[i].bags = 3;
  }
  groups[2].scale = scale.data();
  groups[1].table = table.rows();  // no bags and no memory
  EXPECT_NO_THROW(checked->embedding_bag_forward(groups));
  EXPECT_FLOAT_EQ(pooled.at(0, 4), table.weights.at(7, 4) + table.weights.at(0, 4));
  EXPECT_FLOAT_EQ(again.at(2, 1), -0.25f * (narrow.weights.at(19, 1) + narrow.weights.at(7, 1) +
                                            narrow.weights.at(3, 1)));
}

TEST(CheckedOperands, GroupsMayStartBehindOtherIdsAndBeEmpty) {
  SelfChecked checked;
  std::vector<int64_t> ids = {-1, 99, 7, 0, 19, 7, 3, 1 << 30}, other = {4, 4};
  std::vector<int64_t> offsets = {2, 4, 4, 7}, others = {0, 0, 2};
  const IdGroup groups[] = {{ids.data(), offsets.data(), 3, 5},
                            {nullptr, nullptr, 0, 0},
                            {other.data(), others.data(), 2, 2}};
  RunSpace space(7);
  EXPECT_NO_THROW(checked->group_rows(groups, 20, space.runs()));
  EXPECT_EQ(space.count[0], 5);
  EXPECT_EQ(std::vector<int64_t>(space.rows.begin(), space.rows.begin() + 5),
            (std::vector<int64_t>{0, 3, 4, 7, 19}));
  EXPECT_EQ(space.occurrences[2].group, 2);
  EXPECT_EQ(space.occurrences[2].bag, 1);
}

TEST(CheckedOperands, PartsOfIdsAreWideOrNarrowAndOfAnyLengths) {
  SelfChecked checked;
  std::vector<int64_t> wide = {3, 9, 4, 5};
  std::vector<int32_t> narrow = {9, 1, 5, 3}, lengths = {1, 0, 3};
  IdPart parts[4];
  parts[0].ids = wide.data(), parts[0].bags = 2, parts[0].length = 2;
  parts[1].ids = narrow.data(), parts[1].narrow = true, parts[1].bags = 3;
  parts[1].lengths = lengths.data();
  parts[3].ids = narrow.data(), parts[3].narrow = true, parts[3].bags = 4, parts[3].length = 1;
  std::vector<int64_t> ids(12, -1), offsets(10, -1);
  const IdFilter filter{parts, 3, 3, ids.data(), offsets.data()};
  EXPECT_NO_THROW(checked->filter_ids({&filter, 1}));
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 1, 3, 3, 3, 5, 5, 5, 6, 7}));
  ids.resize(7);
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 1, 2, 2, 0, 2, 0}));
}

#ifdef DLRM_WITH_CUDA
/// Checked operations of the first GPU.
struct CheckedGpu {
  /// Memory of the device of exactly these bytes.
  template <class T>
  Array<T> upload(const std::vector<T>& values) {
    Array<T> array(*device, values.size(), "test");
    transfer.to_device(array.data(), values.data(), values.size() * sizeof(T));
    return array;
  }

  std::shared_ptr<Device> device = make_cuda_device(0);
  std::unique_ptr<Stream> stream = device->make_stream();
  Transfer transfer{*device, *stream};
  std::unique_ptr<Ops> checked =
      make_checked_ops(make_cuda_ops(*device, *stream, {}), *device, *stream);
};

TEST(CheckedOperands, OfADeviceAreNotReadPastTheirEnd) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  CheckedGpu gpu;
  constexpr size_t kIds = 4096;
  const auto narrow = gpu.upload(std::vector<int32_t>(kIds, 4));
  const Array<int64_t> ids(*gpu.device, kIds, "ids"), offsets(*gpu.device, 2, "offsets");
  IdPart part;
  part.ids = narrow.data(), part.narrow = true, part.bags = 1, part.length = kIds;
  const IdFilter filter{{&part, 1}, 3, 3, ids.data(), offsets.data()};
  EXPECT_NO_THROW(gpu.checked->filter_ids({&filter, 1}));
  IdCheck check;
  check.ids = narrow.data(), check.narrow = true, check.bags = 1, check.length = kIds;
  check.capacity = kIds, check.rows = 5;
  const auto flag = gpu.upload(std::vector<float>{0});
  const auto where = gpu.upload(std::vector<int64_t>{0, 0, 0});
  EXPECT_NO_THROW(gpu.checked->check_ids({&check, 1}, flag.view(), where.view()));
  const auto packed = gpu.upload(std::vector<int32_t>(kIds, 7));
  const PackedList list{packed.data(), ids.data(), kIds, 0};
  EXPECT_NO_THROW(gpu.checked->unpack({&list, 1}));
}

TEST(CheckedOperands, OfADeviceMayListTheRowsOfABlock) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  CheckedGpu gpu;
  const auto from = gpu.upload(std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto to = gpu.upload(std::vector<float>(8, 0.5f));
  const auto scale = gpu.upload(std::vector<float>{10, 100});
  const auto rows_from = gpu.upload(std::vector<int32_t>{2, 0});
  const auto rows_to = gpu.upload(std::vector<int32_t>{1, 3});
  BlockCopy b;
  b.src = from.data(), b.dst = to.data(), b.src_stride = b.dst_stride = b.cols = 2, b.rows = 2;
  b.scale = scale.data(), b.src_rows = rows_from.data(), b.dst_rows = rows_to.data();
  EXPECT_NO_THROW(gpu.checked->copy_blocks({&b, 1}));
  std::vector<float> got(8);
  gpu.transfer.to_host(got.data(), to.data(), 8 * sizeof(float));
  EXPECT_EQ(got, (std::vector<float>{0.5f, 0.5f, 50, 60, 0.5f, 0.5f, 100, 200}));
}
#endif

/// Copies a block of 3 rows of 4 columns from `from` to `to`.
BlockCopy block_of(const float* from, float* to, bool accumulate = false) {
  BlockCopy b;
  b.src = from, b.dst = to, b.src_stride = 4, b.dst_stride = 10, b.rows = 3, b.cols = 4;
  b.accumulate = accumulate;
  return b;
}

TEST(CheckedOperands, BlocksMayOverlapInAnyOrder) {
  SelfChecked checked;
  std::vector<float> from(12), to(60, 1);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) + 0.5f;
  // A large block, one within it, one that reaches beyond it, and one apart.
  std::vector<BlockCopy> blocks = {
      block_of(from.data(), to.data() + 4), block_of(from.data(), to.data() + 2, true),
      block_of(from.data(), to.data() + 12, true), block_of(from.data(), to.data() + 36)};
  blocks[2].rows = 1, blocks[2].cols = 2;
  blocks[3].rows = 0;
  EXPECT_NO_THROW(checked->copy_blocks(blocks));
  EXPECT_EQ(to[14], 4.5f + 6.5f);
  EXPECT_EQ(to[12], 1 + 4.5f + 0.5f);
  blocks[0].rows = 2;  // the last of the others ends later
  EXPECT_NO_THROW(checked->copy_blocks(blocks));
  std::swap(blocks[0], blocks[2]);
  EXPECT_NO_THROW(checked->copy_blocks(blocks));
  std::vector<int32_t> rows = {0, 2, 3}, sources = {2, 0, 2};
  std::vector<float> scale = {2, 0.5f, -1};
  BlockCopy listed = block_of(from.data(), to.data());
  listed.dst_rows = rows.data(), listed.src_rows = sources.data(), listed.scale = scale.data();
  EXPECT_NO_THROW(checked->copy_blocks({&listed, 1}));
  EXPECT_EQ(to[21], 0.5f * 1.5f);
  EXPECT_EQ(to[32], -10.5f);
}

TEST(CheckedOperands, EveryRuleUpdatesRowsOfATier) {
  SelfChecked checked;
  const std::vector<int64_t> rows = {0, 3, 4}, count = {3}, row_of = {40, 41, 42, 99, 44, 45};
  for (const OptimizerStep& step : every_rule(kSparse)) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      Table table(6, 5, type, 3);
      RowTable of = table.rows(step.rule);
      of.row_of = row_of.data(), of.first_row = 7, of.first_column = 2, of.rounding_key = 11;
      Cells grads = Cells::random(6, 5, 4);
      EXPECT_NO_THROW(checked->sparse_update(step, of, rows, count, grads.floats(), {}, 5))
          << traits_of(step.rule).name;
      std::vector<float> squares = {0.5f, 2, 3};
      EXPECT_NO_THROW(checked->sparse_update(step, of, rows, count, grads.floats(), squares, 20));
    }
  }
}

TEST(CheckedOperands, StatesOfRowsMayLieSideBySide) {
  SelfChecked checked;
  const std::vector<int64_t> rows = {3, 4}, count = {2};
  std::vector<float> states(6, 0.5f);
  Table table(6, 5, DType::kFloat32, 3);
  RowTable of = table.rows(OptimizerRule::kRowwiseAdagrad);
  of.state1 = states.data(), of.state_stride = 1;
  Cells grads = Cells::random(2, 5, 4);
  EXPECT_NO_THROW(checked->sparse_update(step_of(OptimizerRule::kRowwiseAdagrad), of, rows, count,
                                         grads.floats(), {}, 5));
  EXPECT_GT(states[4], 0.5f);
  EXPECT_EQ(states[5], 0.5f);
}

TEST(CheckedOperands, EveryRuleUpdatesParametersAndMaySkip) {
  SelfChecked checked;
  const float skip = 1;
  for (OptimizerStep step : every_rule(kDense)) {
    const int states = traits_of(step.rule).state_count();
    for (const bool skips : {false, true}) {
      std::vector<float> w(7, 0.75f), g(7, 0.5f), s1(7, 0.25f), s2(7, 0.125f);
      std::vector<BFloat16> copy(7);
      step.skip_update = skips ? &skip : nullptr;
      EXPECT_NO_THROW(checked->dense_update(step, w, g,
                                            states > 0 ? View<float>(s1) : View<float>(),
                                            states > 1 ? View<float>(s2) : View<float>(), copy))
          << traits_of(step.rule).name;
      EXPECT_EQ(w[3] == 0.75f, skips) << traits_of(step.rule).name;
    }
  }
}

TEST(CheckedOperands, LayersOfEveryActivationPass) {
  SelfChecked checked;
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      Cells x = Cells::random(5, 8, 1, type), w = Cells::random(6, 8, 2, type);
      Cells y(5, 6, type), z(5, 6, type), dy = Cells::random(5, 6, 4, type), dx(5, 8, type);
      std::vector<float> bias(6, 0.5f), dw(48), dbias(6);
      const Matrix before = needs_input(act) ? z.matrix() : Matrix();
      EXPECT_NO_THROW(
          checked->linear_forward(x.matrix(), w.matrix(), bias, act, y.matrix(), before));
      EXPECT_NO_THROW(checked->linear_forward(x.matrix(), w.matrix(), {}, act, y.matrix(), before));
      LinearBackward layer;
      layer.act = act, layer.y = y.matrix(), layer.z = before, layer.dy = dy.matrix();
      layer.x = x.matrix(), layer.w = w.matrix(), layer.dw = {dw.data(), 6, 8};
      for (const bool with_dx : {false, true}) {
        layer.dx = with_dx ? dx.matrix() : Matrix();
        layer.dbias = with_dx ? View<float>(dbias) : View<float>();
        EXPECT_NO_THROW(checked->run(layer));
      }
    }
  }
}

TEST(CheckedOperands, AMatrixOfEqualRowsIsCopiedRowByRow) {
  SelfChecked checked;
  std::vector<float> row = {1, 2, 3};
  Cells to(4, 3);
  EXPECT_NO_THROW(checked->convert(Matrix(row.data(), DType::kFloat32, 4, 3, 0), to.matrix()));
  EXPECT_EQ(to.at(3, 2), 3);
}

TEST(Tolerances, AreThoseOfTheStoredTypeAndOfSums) {
  EXPECT_EQ(rounding(DType::kFloat32, -3), 3 * 0x1p-22 + 1e-37);
  EXPECT_EQ(rounding(DType::kBFloat16, 2), 0x1p-6 + 1e-37);
  EXPECT_EQ(rounding(DType::kFloat16, 1), 0x1p-10 + 1e-37);
  EXPECT_EQ(rounding(DType::kFloat32, 0), 1e-37);
  EXPECT_EQ(summing(16, 2), 16 * 0x1p-23);
  EXPECT_EQ(summing(0, 1), 8 * 0x1p-24);
  EXPECT_TRUE(agree(1, 1.5, 0.5));
  EXPECT_FALSE(agree(1, 1.5625, 0.5));
  EXPECT_FALSE(agree(1.5625, 1, 0.5));
  EXPECT_TRUE(agree(NAN, NAN, 0));
  EXPECT_FALSE(agree(NAN, 1, 5));
  EXPECT_FALSE(agree(1, NAN, 5));
  EXPECT_TRUE(agree(INFINITY, INFINITY, 0));
  EXPECT_FALSE(agree(INFINITY, -INFINITY, 1e300));
  EXPECT_FALSE(agree(1, INFINITY, INFINITY));
  EXPECT_FALSE(agree(INFINITY, 1, 1e300));
}

/// One result that may differ from 4 by `t`, with sums of magnitudes 2 and 8 before the operation.
bool passes(double got, const Tolerance& t, double rounded = 0) {
  const auto of = [&](double value) {
    checked::Result result{"y", t, 1, {value}, rounded};
    return std::vector<checked::Result>{result};
  };
  try {
    compare({"some", "[1]", "that"}, of(got), of(4), of(2), of(8));
    return true;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("y (0, 0) is "), std::string::npos);
    return false;
  }
}

TEST(Tolerances, OfAResultAddUp) {
  EXPECT_TRUE(passes(4, {}));
  EXPECT_FALSE(passes(4 + 1e-15, {}));
  EXPECT_TRUE(passes(4.5, {.absolute = 0.5}));
  EXPECT_FALSE(passes(4.51, {.absolute = 0.5}));
  EXPECT_TRUE(passes(3.5, {.relative = 0.125}));
  EXPECT_FALSE(passes(3.49, {.relative = 0.125}));
  EXPECT_TRUE(passes(5, {.initial = 0.125}));
  EXPECT_FALSE(passes(5.01, {.initial = 0.125}));
  EXPECT_TRUE(passes(4 + 0x1p-19, {.terms = 16}));
  EXPECT_FALSE(passes(4 + 0x1.02p-19, {.terms = 16}));
  EXPECT_TRUE(passes(4.25, {}, 0.0625));
  EXPECT_FALSE(passes(4.26, {}, 0.0625));
  EXPECT_TRUE(passes(6.75, {.absolute = 1, .relative = 0.125, .initial = 0.125}, 0.0625));
  EXPECT_FALSE(passes(6.76, {.absolute = 1, .relative = 0.125, .initial = 0.125}, 0.0625));
}

}  // namespace
}  // namespace dlrm
