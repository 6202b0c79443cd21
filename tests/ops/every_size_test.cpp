// Every size from 1 to beyond the tiles, packs and bands that kernels are chosen by, one dimension
// after the other, against the reference.
#include <array>

#include "bags.h"

namespace dlrm {
namespace {

using EverySize = EveryExecution;

struct Sizes {
  int64_t samples, features, width;
  std::string text(DType type) const {
    return fmt::format("{} of {} x {}, {}", samples, features, width, name_of(type));
  }
};

/// Every number of features for rows of each alignment, and every width for few and many.
std::vector<Sizes> sizes_of_interactions() {
  std::vector<Sizes> all;
  for (const int64_t width : {3, 4}) {
    for (int64_t features = 1; features <= 36; ++features) all.push_back({2, features, width});
  }
  for (const int64_t features : {2, 17}) {
    for (int64_t width = 1; width <= 36; ++width) all.push_back({2, features, width});
  }
  for (int64_t samples = 1; samples <= 9; ++samples) all.push_back({samples, 5, 8});
  return all;
}

/// Forward and backward of an interaction with `outputs` columns.
template <class Forward, class Backward>
void expect_the_reference(Ops& ops, Ops& reference, const Sizes& s, DType type, int64_t outputs,
                          double scale) {
  const int64_t columns = s.features * s.width;
  const auto cells = [&](int64_t cols, unsigned seed) {
    return Cells::random(s.samples, cols, seed, type, 4);
  };
  Cells x = cells(s.width, 1), e = cells(columns, 2), dz = cells(outputs, 3);
  const auto run = [&](Ops& execution) {
    std::array<Cells, 3> results{cells(outputs, 4), cells(s.width, 5), cells(columns, 6)};
    execution.run(Forward{x.matrix(), e.matrix(), results[0].matrix()});
    execution.run(
        Backward{x.matrix(), e.matrix(), dz.matrix(), results[1].matrix(), results[2].matrix()});
    return results;
  };
  const auto got = run(ops), want = run(reference);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(close(got[i], want[i], scale)) << s.text(type) << ", result " << i;
  }
}

TEST_P(EverySize, OfInteractions) {
  for (const Sizes& s : sizes_of_interactions()) {
    for (const DType type : kTypes) {
      const int64_t dot = s.width + (s.features + 1) * s.features / 2;
      const int64_t fm = (s.features + 1) * s.width + 1;
      expect_the_reference<DotForward, DotBackward>(*ops, *reference, s, type, dot, 20);
      expect_the_reference<FmForward, FmBackward>(*ops, *reference, s, type, fm, 60);
    }
  }
}

TEST_P(EverySize, OfALayer) {
  struct Layer {
    int64_t batch, in, out;
  };
  std::vector<Layer> layers;
  for (int64_t n = 1; n <= 36; ++n) {
    layers.insert(layers.end(), {{n, 7, 5}, {6, n, 5}, {6, 7, n}, {n, 40, 1}, {6, n, 1}});
  }
  for (const Layer& layer : layers) {
    const int64_t batch = layer.batch, in = layer.in, out = layer.out;
    for (const DType type : kTypes) {
      Cells x = Cells::random(batch, in, 1, type), w = Cells::random(out, in, 2, type);
      Cells dy = Cells::random(batch, out, 3, type), bias = Cells::random(1, out, 4);
      bias.rounded_to(type);
      const View<const float> b(bias.floats().data, static_cast<size_t>(out));
      const auto run = [&](Ops& execution) {
        std::array<Cells, 4> results{Cells(batch, out, type), Cells(batch, in, type),
                                     Cells(out, in), Cells(1, out)};
        execution.linear_forward(x.matrix(), w.matrix(), b, Activation::kNone, results[0].matrix(),
                                 {});
        LinearBackward l;
        l.dy = dy.matrix(), l.x = x.matrix(), l.w = w.matrix(), l.dx = results[1].matrix();
        l.dw = results[2].floats();
        l.dbias = {results[3].floats().data, static_cast<size_t>(out)};
        execution.run(l);
        return results;
      };
      const auto got = run(*ops), want = run(*reference);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(close(got[i], want[i], 20))
            << batch << " x " << in << " -> " << out << name_of(type) << ", result " << i;
      }
    }
  }
}

TEST_P(EverySize, OfRowsThatArePooledAndUpdated) {
  constexpr int64_t kRows = 30, kBags = 40;
  const OptimizerStep rules[] = {step_of(OptimizerRule::kSgd),
                                 step_of(OptimizerRule::kRowwiseAdagrad),
                                 step_of(OptimizerRule::kAdam)};
  for (int64_t width = 1; width <= 68; ++width) {
    for (const DType type : kTypes) {
      Table table(kRows, width, type, 1, 4);
      const Bags bags = Bags::random(kBags, kRows, 2, 1);
      Cells got(kBags, width, type, 4), want(got);
      const BagGroup group[] = {bags.lookup(table.rows(), got.matrix())};
      const BagGroup expected[] = {bags.lookup(table.rows(), want.matrix())};
      ops->embedding_bag_forward(group);
      reference->embedding_bag_forward(expected);
      EXPECT_TRUE(close(got, want, 3)) << "width " << width << name_of(type);
      const OptimizerStep& rule = rules[width % 3];
      const Backward b(*reference, kBags, kRows, width);
      Table mine(table), other(table);
      RunSpace space(b.space);
      ops->embedding_bag_update(rule, mine.rows(rule.rule), space.runs(), b.gradients);
      reference->embedding_bag_update(rule, other.rows(rule.rule), space.runs(), b.gradients);
      EXPECT_TRUE(mine.close_to(other)) << "width " << width << name_of(type);
    }
  }
}

/// Rows of weights, states and gradients that are read four columns at a time.
TEST_P(EverySize, OfAlignedRowsThatAreUpdatedByAnyRule) {
  constexpr int64_t kRows = 12;
  std::vector<int64_t> widths{128, 132, 136, 256, 260};
  for (int64_t width = 4; width <= 68; width += 8) widths.push_back(width);
  for (const int64_t width : widths) {
    for (const int64_t spare : {4, 3}) {
      const Backward b(*reference, 20, kRows, width, spare);
      RunSpace space(b.space);
      for (const OptimizerStep& step : every_rule(kSparse)) {
        for (const DType type : kTypes) {
          Table got(kRows, width, type, 1, 4), want(got);
          ops->embedding_bag_update(step, got.rows(step.rule), space.runs(), b.gradients);
          reference->embedding_bag_update(step, want.rows(step.rule), space.runs(), b.gradients);
          EXPECT_TRUE(got.close_to(want))
              << traits_of(step.rule).name << ", width " << width << name_of(type);
        }
      }
      Cells got(b.unique(), width, DType::kFloat32, 4), want(got);
      ops->embedding_bag_backward(space.runs(), b.gradients, got.floats());
      reference->embedding_bag_backward(space.runs(), b.gradients, want.floats());
      EXPECT_TRUE(close(got, want, 20)) << "width " << width;
    }
  }
}

TEST_P(EverySize, OfABag) {
  constexpr int64_t kRows = 50;
  for (int64_t length = 0; length <= 68; ++length) {
    for (const int64_t width : {1, 8, 130}) {
      Table table(kRows, width, DType::kFloat32, 1, 4);
      Bags bags;
      for (int64_t i = 0; i < 3 * length; ++i) bags.ids.push_back((i * 7 + length) % kRows);
      bags.offsets = {0, length, 2 * length, 3 * length};
      Cells got(3, width, DType::kFloat32, 4), want(got);
      const BagGroup group[] = {bags.lookup(table.rows(), got.matrix())};
      const BagGroup expected[] = {bags.lookup(table.rows(), want.matrix())};
      ops->embedding_bag_forward(group);
      reference->embedding_bag_forward(expected);
      EXPECT_TRUE(close(got, want, 20)) << length << " ids, width " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, EverySize, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
