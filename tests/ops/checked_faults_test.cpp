// Operations of which one result is wrong: the checked execution names it.
#include <functional>

#include "bags.h"
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
std::string error_of(std::function<void(const Operation&)> spoil,
                     const std::function<void(Ops&)>& call) {
  Machine machine;
  auto checked = make_checked_ops(std::make_unique<Spoilt<Operation>>(std::move(spoil)),
                                  *machine.device, *machine.stream);
  try {
    call(*checked);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The error must name `element`. Without an element there must be no error.
void expect_found(const std::string& error, const std::string& element) {
  if (element.empty()) {
    EXPECT_EQ(error, "");
    return;
  }
  EXPECT_NE(error.find(element), std::string::npos) << element << ": " << error;
}

/// Two shards of one batch, with space for their rows.
struct TwoShards {
  Bags bags[2] = {Bags::random(9, 20, 2, 12), Bags::random(7, 30, 2, 13)};
  RunSpace spaces[2] = {RunSpace(bags[0].nnz()), RunSpace(bags[1].nnz())};
  Table tables[2] = {Table(20, 8, DType::kFloat32, 1), Table(30, 8, DType::kFloat32, 2)};
  Cells gradients[2] = {Cells::random(9, 8, 3), Cells::random(7, 8, 4)};
  IdGroup groups[2] = {bags[0].group(), bags[1].group()};
  BagGradient parts[2] = {{gradients[0].floats(), nullptr}, {gradients[1].floats(), nullptr}};
  std::vector<ShardUpdate> shards;

  explicit TwoShards(OptimizerRule rule) {
    for (size_t i = 0; i < 2; ++i) {
      shards.push_back({tables[i].rows(rule), {&groups[i], 1}, {&parts[i], 1}, spaces[i].runs()});
    }
  }
  void group() {
    Machine machine;
    machine.reference()->group_rows_of(shards, [] {});
  }
};

TEST(CheckedFaults, AWrongRowOfAnyShardIsFound) {
  TwoShards two(OptimizerRule::kAdam);
  const auto group = [&](Ops& o) { o.group_rows_of(two.shards, [] {}); };
  const auto runs_of = [](const GroupShardRows& o) { return o.shards.back().runs; };
  EXPECT_EQ(error_of<GroupShardRows>([](const GroupShardRows&) {}, group), "");
  expect_found(
      error_of<GroupShardRows>([&](const GroupShardRows& o) { --runs_of(o).count[0]; }, group),
      "count 0 is ");
  expect_found(
      error_of<GroupShardRows>([&](const GroupShardRows& o) { ++runs_of(o).rows[3]; }, group),
      "row 3 is ");
  expect_found(error_of<GroupShardRows>(
                   [&](const GroupShardRows& o) {
                     --runs_of(o).starts[static_cast<size_t>(runs_of(o).count[0])];
                   },
                   group),
               "start ");
  expect_found(error_of<GroupShardRows>(
                   [&](const GroupShardRows& o) { runs_of(o).occurrences[0].group = 1; }, group),
               "group of occurrence 0 is ");
  expect_found(error_of<GroupShardRows>(
                   [&](const GroupShardRows& o) { ++runs_of(o).occurrences.back().bag; }, group),
               "bag of occurrence ");
}

TEST(CheckedFaults, AWrongUpdateOfAnyArrayOfAnyShardIsFound) {
  for (const size_t wrong : {size_t{0}, size_t{1}}) {
    for (int array = 0; array < 3; ++array) {
      TwoShards two(OptimizerRule::kAdam);
      two.group();
      const auto spoil = [&](const UpdateShards& o) {
        const ShardUpdate& s = o.shards[wrong];
        const int64_t row = s.runs.rows[0];
        if (array == 0) static_cast<float*>(s.table.weights)[row * s.table.stride + 7] += 0.1f;
        if (array == 1) s.table.state1[row * s.table.state_stride + 7] += 0.1f;
        if (array == 2) s.table.state2[row * s.table.state_stride + 7] += 0.1f;
      };
      const auto update = [&](Ops& o) {
        o.embedding_bag_updates(step_of(OptimizerRule::kAdam), two.shards, [] {});
      };
      const char* const names[] = {"weight (", "state 1 (", "state 2 ("};
      expect_found(error_of<UpdateShards>(spoil, update), names[array]);
    }
  }
  TwoShards two(OptimizerRule::kAdam);
  two.group();
  EXPECT_EQ(error_of<UpdateShards>([](const UpdateShards&) {},
                                   [&](Ops& o) {
                                     o.embedding_bag_updates(step_of(OptimizerRule::kAdam),
                                                             two.shards, [] {});
                                   }),
            "");
}

TEST(CheckedFaults, AWrongListOfIdsIsFound) {
  std::vector<int32_t> packed = {4, -5, 6};
  std::vector<int64_t> unpacked(3), multiples(3);
  const PackedList lists[] = {{packed.data(), unpacked.data(), 3, 0},
                              {nullptr, multiples.data(), 3, 7}};
  const auto unpack = [&](Ops& o) { o.unpack(lists); };
  EXPECT_EQ(error_of<Unpack>([](const Unpack&) {}, unpack), "");
  for (const auto& list : {&unpacked, &multiples}) {
    expect_found(error_of<Unpack>([&](const Unpack&) { ++list->back(); }, unpack), "element 2 is ");
  }

  std::vector<int32_t> sent = {3, 9, 4, 5, 9, 1}, lengths = {2, 0, 4};
  std::vector<int64_t> ids(6), offsets(4);
  IdPart part;
  part.ids = sent.data(), part.lengths = lengths.data(), part.bags = 3, part.narrow = true;
  const IdFilter filter{{&part, 1}, 3, 3, ids.data(), offsets.data()};
  const auto filtering = [&](Ops& o) { o.filter_ids({&filter, 1}); };
  EXPECT_EQ(error_of<FilterIds>([](const FilterIds&) {}, filtering), "");
  for (size_t i = 0; i < 4; ++i) {
    expect_found(error_of<FilterIds>([&](const FilterIds&) { ++offsets[i]; }, filtering),
                 "offset " + std::to_string(i));
  }
  for (size_t i = 0; i < 3; ++i) {
    expect_found(error_of<FilterIds>([&](const FilterIds&) { ++ids[i]; }, filtering),
                 "id " + std::to_string(i));
  }
}

TEST(CheckedFaults, AWrongReportOfABadIdIsFound) {
  for (int wrong = 0; wrong < 6; ++wrong) {
    Bags bags = Bags::random(10, 5, 2, 1), good = Bags::random(4, 5, 2, 2);
    bags.ids[2] = 77;
    std::vector<float> flag = {0};
    std::vector<int64_t> where = {0, 0, 0};
    std::vector<IdCheck> lists(2);
    for (size_t i = 0; i < 2; ++i) {
      Bags& of = i == 0 ? good : bags;
      lists[i].ids = of.ids.data(), lists[i].offsets = of.offsets.data();
      lists[i].bags = of.count(), lists[i].capacity = of.nnz(), lists[i].rows = 5;
    }
    const std::string error = error_of<CheckIds>(
        [&](const CheckIds&) {
          if (wrong == 1) flag[0] = 0;
          if (wrong == 2) flag[0] = 2;
          if (wrong == 3) ++where[2];
          if (wrong == 4) bags.ids[2] = 77;
          if (wrong == 5) good.ids.back() ^= 1;
        },
        [&](Ops& o) { o.check_ids(lists, flag, where); });
    const char* const expected[] = {"",           "flag is 0", "flag is 2", "report 2 is ",
                                    "id 2 is 77", "id "};
    expect_found(error, expected[wrong]);
  }
}

TEST(CheckedFaults, AWrongGradientOfALayerIsFound) {
  for (int wrong = 0; wrong < 4; ++wrong) {
    Cells x = Cells::random(5, 8, 1), w = Cells::random(6, 8, 2), y = Cells::random(5, 6, 3);
    Cells dy = Cells::random(5, 6, 4), dx(5, 8);
    std::vector<float> dw(48), dbias(6);
    LinearBackward layer;
    layer.y = y.matrix(), layer.dy = dy.matrix(), layer.x = x.matrix(), layer.w = w.matrix();
    layer.dx = dx.matrix(), layer.dw = {dw.data(), 6, 8}, layer.dbias = dbias;
    const std::string error = error_of<LinearBackward>(
        [&](const LinearBackward& l) {
          if (wrong == 1) *static_cast<float*>(l.dx.element(4, 7)) += 0.1f;
          if (wrong == 2) l.dw(5, 7) += 0.1f;
          if (wrong == 3) l.dbias.back() += 0.1f;
        },
        [&](Ops& o) { o.run(layer); });
    const char* const expected[] = {"", "dx (4, 7)", "dw (5, 7)", "dbias (0, 5)"};
    expect_found(error, expected[wrong]);
  }
}

TEST(CheckedFaults, AWrongValueBesideALargeBiasIsFound) {
  Cells x = Cells::random(2, 4, 1, DType::kBFloat16), w = Cells::random(3, 4, 2, DType::kBFloat16);
  Cells y(2, 3, DType::kBFloat16);
  const std::vector<float> bias = {256, 0, 0};
  for (const bool wrong : {false, true}) {
    const std::string error = error_of<LinearForward>(
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

TEST(CheckedFaults, AWrongGradientThatAnUpdateAppliesIsFound) {
  for (const bool wrong : {false, true}) {
    Cells x = Cells::random(5, 8, 1), w = Cells::random(6, 8, 2, DType::kFloat32, 0);
    Cells y = Cells::random(5, 6, 3), dy = Cells::random(5, 6, 4);
    std::vector<float> dw(48), dbias(6), bias(6, 1);
    LinearBackward layer;
    layer.y = y.matrix(), layer.dy = dy.matrix(), layer.x = x.matrix(), layer.w = w.matrix();
    layer.dw = {dw.data(), 6, 8}, layer.dbias = dbias;
    const OptimizerStep step = step_of(OptimizerRule::kSgd);
    const std::string error = error_of<LinearBackwardUpdate>(
        [&](const LinearBackwardUpdate& o) {
          if (!wrong) return;
          o.layer.dbias[2] += 1;
          o.bias.values[2] -= step.lr;
        },
        [&](Ops& o) {
          const View<float> weights(static_cast<float*>(w.matrix().data), 48);
          o.run(LinearBackwardUpdate{step, layer, {weights, {}, {}, {}}, {bias, {}, {}, {}}});
        });
    expect_found(error, wrong ? "weight (0, 2)" : "");
  }
}

TEST(CheckedFaults, AWrongSumOfBlocksBesideAnInfiniteOneIsFound) {
  for (const bool wrong : {false, true}) {
    std::vector<float> from = {1, INFINITY, 3}, to(3, 1);
    BlockCopy block;
    block.src = from.data(), block.dst = to.data(), block.rows = 1, block.accumulate = true;
    block.cols = block.src_stride = block.dst_stride = 3;
    const std::string error =
        error_of<CopyBlocks>([&](const CopyBlocks&) { to[2] += wrong ? 1.0f : 0.0f; },
                             [&](Ops& o) {
                               o.copy_blocks({&block, 1});
                             });
    expect_found(error, wrong ? "dst (0, 2)" : "");
  }
}

TEST(CheckedFaults, AWrongValueOfADenseUpdateIsFound) {
  for (int wrong = 0; wrong < 5; ++wrong) {
    std::vector<float> w(20, 1.0f), g(20, 0.5f), s1(20, 0.25f), s2(20, 0.25f);
    std::vector<BFloat16> copy(20);
    const std::string error = error_of<DenseUpdate>(
        [&](const DenseUpdate& o) {
          if (wrong == 1) o.w.back() += 0.1f;
          if (wrong == 2) o.s1.back() += 0.1f;
          if (wrong == 3) o.s2.back() += 0.1f;
          if (wrong == 4) o.copy.back().bits ^= 1;
        },
        [&](Ops& o) { o.dense_update(step_of(OptimizerRule::kAdam), w, g, s1, s2, copy); });
    const char* const expected[] = {"", "weight (0, 19)", "state 1 (0, 19)", "state 2 (0, 19)",
                                    "bf16 copy 19"};
    expect_found(error, expected[wrong]);
  }
}

TEST(CheckedFaults, AWrongRowOfManyThatAreFilledIsFound) {
  Table table(9000, 3, DType::kFloat32, 1);
  const auto fill = [&](Ops& o) { o.fill_uniform(3, 5, 2, 0.5f, table.rows()); };
  for (const int64_t row : {int64_t{-1}, int64_t{0}, int64_t{4095}, int64_t{4096}, int64_t{8999}}) {
    const std::string error = error_of<FillUniform>(
        [&](const FillUniform& o) {
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

TEST(CheckedFaults, AlgorithmsOfTheChosenExecutionAreKept) {
  struct Tuned final : reference::ReferenceOps {
    std::vector<std::byte> tuned_algorithms() const override { return {std::byte{7}}; }
    void restore_tuned_algorithms(View<const std::byte> choices) override {
      restored.assign(choices.begin(), choices.end());
    }
    int threads() const override { return 5; }
    std::vector<std::byte> restored;
  };
  Machine machine;
  auto tuned = std::make_unique<Tuned>();
  const Tuned& chosen = *tuned;
  auto checked = make_checked_ops(std::move(tuned), *machine.device, *machine.stream);
  EXPECT_EQ(checked->name(), "checked reference");
  EXPECT_EQ(checked->threads(), 5);
  EXPECT_EQ(checked->tuned_algorithms(), (std::vector<std::byte>{std::byte{7}}));
  checked->restore_tuned_algorithms(std::vector<std::byte>{std::byte{1}, std::byte{2}});
  EXPECT_EQ(chosen.restored, (std::vector<std::byte>{std::byte{1}, std::byte{2}}));
}

}  // namespace
}  // namespace dlrm
