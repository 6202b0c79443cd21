#include <functional>
#include <random>

#include "bags.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {
namespace {

/// The reference with one wrong element in every result.
class Faulty final : public reference::ReferenceOps {
 public:
  std::string name() const override { return "faulty"; }

  using ReferenceOps::run;
  void run(const LinearForward& o) override { run_wrong(o, o.y); }
  void run(const LinearBackwardInput& o) override { run_wrong(o, o.dx); }
  void run(const LinearBackwardWeight& o) override {
    ReferenceOps::run(o);
    o.dbias.back() *= 1.01f;
  }
  void run(const ActivationBackward& o) override { run_wrong(o, o.dy); }
  void run(const LinearBackward& layer) override {
    ReferenceOps::run(LinearBackwardWeight{layer.dy, layer.x, layer.dw, layer.dbias});
    layer.dw(0, 0) += spoils_sums ? 1e-2f : 0.0f;
  }
  void run(const LinearBackwardUpdate& o) override {
    ReferenceOps::run(o);
    o.weight.values.back() += 1e-3f;
  }
  void run(const DotForward& o) override { run_wrong(o, o.z); }
  void run(const DotBackward& o) override { run_wrong(o, o.de); }
  void run(const AveragePoolForward& o) override { run_wrong(o, o.y); }
  void run(const AveragePoolBackward& o) override { run_wrong(o, o.de); }
  void run(const CrossForward& o) override { run_wrong(o, o.y); }
  void run(const CrossBackward& o) override { run_wrong(o, o.du); }
  void run(const CrossInputBackward& o) override { run_wrong(o, o.sum); }
  void run(const FmForward& o) override { run_wrong(o, o.z); }
  void run(const FmBackward& o) override { run_wrong(o, o.de); }
  void run(const BceWithLogits& o) override {
    ReferenceOps::run(o);
    o.loss[0] *= 1.001;
  }
  void run(const Sigmoid& o) override {
    ReferenceOps::run(o);
    o.p.back() += 1e-4f;
  }
  void run(const EmbeddingBagForward& o) override { run_wrong(o, o.groups.back().pooled); }
  void run(const GroupRows& o) override {
    ReferenceOps::run(o);
    o.runs.occurrences.back().bag ^= 1;
  }
  void run(const EmbeddingBagBackward& o) override {
    ReferenceOps::run(o);
    if (spoils_sums) spoil(o.grads.row_range(0, o.runs.count[0]));
  }
  void run(const RowSquareSums& o) override {
    ReferenceOps::run(o);
    o.sums[0] *= 1.001f;
  }
  void run(const SparseUpdate& o) override {
    ReferenceOps::run(o);
    spoil_row(o.table, o.rows[0]);
  }
  void run(const EmbeddingBagUpdate& o) override {
    ReferenceOps::run(o);
    spoil_row(o.table, o.runs.rows[0]);
  }
  void run(const SumTableGradients& o) override {
    ReferenceOps::run(o);
    if (spoils_sums) {
      spoil(o.gradients.back().rows);
    } else {
      o.gradients.back().touched.back() = 2;
    }
  }
  void run(const UpdateTables& o) override {
    ReferenceOps::run(o);
    spoil_row(o.tables.back().table, 19);
  }
  void run(const CopyBlocks& o) override {
    ReferenceOps::run(o);
    *static_cast<float*>(o.blocks.back().dst) += 1;
  }
  void run(const Convert& o) override { run_wrong(o, o.y); }
  void run(const Add& o) override { run_wrong(o, o.y); }
  void run(const FillZero& o) override { o.bytes.back() = 1; }
  void run(const FindNonFinite&) override {}
  void run(const DenseUpdate& o) override {
    ReferenceOps::run(o);
    o.w.back() += 1e-3f;
  }
  void run(const FillUniform& o) override {
    ReferenceOps::run(o);
    static_cast<float*>(o.table.weights)[0] += 1e-6f;
  }

  bool spoils_sums = true;

 private:
  template <class Operation>
  void run_wrong(const Operation& o, const Matrix& result) {
    ReferenceOps::run(o);
    spoil(result);
  }
  static void spoil_row(const RowTable& table, int64_t row) {
    static_cast<float*>(table.weights)[row * table.stride] += 1e-3f;
  }
  /// Makes the last element as wrong as a lost low half of a product would.
  static void spoil(const Matrix& m) {
    float& last = *static_cast<float*>(m.element(m.rows - 1, m.cols - 1));
    last += 1e-3f * (1 + std::abs(last));
  }
};

/// Small arguments for one call of each operation.
struct Calls {
  Cells x = Cells::random(5, 8, 1), w = Cells::random(6, 8, 2), y = Cells::random(5, 6, 3);
  Cells dz = Cells::random(5, 6, 4), dw{6, 8}, dx{5, 8}, u = Cells::random(5, 8, 5);
  Cells dx0 = Cells::random(5, 8, 13);
  Cells e = Cells::random(5, 24, 6), z = Cells::random(5, 14, 7), de{5, 24};
  Cells pooled_e{5, 4}, logits = Cells::random(5, 1, 8), dlogits{5, 1};
  Cells fm = Cells::random(5, 33, 14);
  Cells grads = Cells::random(20, 8, 9), dense{20, 8}, pooled{9, 8};
  Cells pooled_gradient = Cells::random(9, 8, 10);
  Table table{20, 8, DType::kFloat32, 11};
  Bags bags = Bags::random(9, 20, 2, 12);
  RunSpace space{bags.nnz()};
  std::vector<float> bias = std::vector<float>(6, 0.5f), labels = {0, 1, 1, 0, 1}, p{0, 0, 0, 0, 0};
  std::vector<float> weights = {1, 0.5f, 2, 0.25f, 3};
  std::vector<float> touched = std::vector<float>(20), flags = std::vector<float>(20, 1.0f);
  std::vector<double> loss = {0};
  std::vector<int64_t> rows = {2, 7, 19}, count = {3};

  void group() {
    const IdGroup groups[] = {bags.group()};
    Machine().reference()->group_rows(groups, 20, space.runs());
  }

  std::vector<float> layer_dw = std::vector<float>(48), layer_dbias = std::vector<float>(6);
  /// The layer of x, y and w. `weights` may replace w.
  LinearBackward layer(View<float> weights = {}) {
    LinearBackward l;
    l.y = y.matrix(), l.dy = dz.matrix(), l.x = x.matrix(), l.w = w.matrix();
    if (!weights.empty()) l.w = Matrix(weights.data(), DType::kFloat32, 6, 8);
    l.dw = {layer_dw.data(), 6, 8};
    l.dbias = layer_dbias;
    return l;
  }

  using Call = std::pair<const char*, std::function<void(Ops&)>>;
  std::vector<Call> all() {
    const OptimizerStep step = step_of(OptimizerRule::kAdagrad);
    const auto gradients = [this] {
      return std::vector<BagGradient>{{pooled_gradient.floats(), nullptr}};
    };
    return {
        {"linear_forward",
         [=, this](Ops& o) {
           o.linear_forward(x.matrix(), w.matrix(), bias, Activation::kNone, y.matrix(), {});
         }},
        {"linear_backward_input",
         [=, this](Ops& o) { o.linear_backward_input(dz.matrix(), w.matrix(), dx.matrix()); }},
        {"linear_backward_weight",
         [=, this](Ops& o) {
           o.linear_backward_weight(dz.matrix(), x.matrix(), dw.floats(), bias);
         }},
        {"activation_backward",
         [=, this](Ops& o) {
           o.activation_backward(Activation::kRelu, y.matrix(), {}, dz.matrix());
         }},
        {"linear_backward", [=, this](Ops& o) { o.run(layer()); }},
        {"linear_backward_update",
         [=, this](Ops& o) {
           std::vector<float> values(48, 0.5f), state(48, 0.25f), more(6, 0.25f);
           o.linear_backward_update(step, layer(values), {values, state, {}, {}},
                                    {bias, more, {}, {}});
         }},
        {"dot_forward", [=, this](Ops& o) { o.dot_forward(x.matrix(), e.matrix(), z.matrix()); }},
        {"dot_backward",
         [=, this](Ops& o) {
           o.dot_backward(x.matrix(), e.matrix(), z.matrix(), dx.matrix(), de.matrix());
         }},
        {"average_pool_forward",
         [=, this](Ops& o) { o.average_pool_forward(e.matrix(), 7, pooled_e.matrix()); }},
        {"average_pool_backward",
         [=, this](Ops& o) { o.average_pool_backward(pooled_e.matrix(), 7, de.matrix()); }},
        {"cross_forward",
         [=, this](Ops& o) { o.cross_forward(x.matrix(), u.matrix(), dx.matrix()); }},
        {"cross_backward",
         [=, this](Ops& o) { o.cross_backward(x.matrix(), u.matrix(), dx.matrix()); }},
        {"cross_input_backward",
         [=, this](Ops& o) {
           o.cross_input_backward(x.matrix(), u.matrix(), {}, dx0.matrix(),
                                  de.matrix().columns(0, 8), dx.matrix());
         }},
        {"fm_forward",
         [=, this](Ops& o) {
           o.run(FmForward{x.matrix(), e.matrix(), fm.matrix()});
         }},
        {"fm_backward",
         [=, this](Ops& o) {
           o.run(FmBackward{x.matrix(), e.matrix(), fm.matrix(), dx.matrix(), de.matrix()});
         }},
        {"bce_with_logits",
         [=, this](Ops& o) {
           o.bce_with_logits(logits.matrix(), {labels, weights}, 0.2f, loss, dlogits.matrix());
         }},
        {"sigmoid", [=, this](Ops& o) { o.sigmoid(logits.matrix(), p); }},
        {"embedding_bag_forward",
         [=, this](Ops& o) {
           const BagGroup groups[] = {bags.lookup(table.rows(), pooled.floats())};
           o.embedding_bag_forward(groups);
         }},
        {"group_rows",
         [=, this](Ops& o) {
           const IdGroup groups[] = {bags.group()};
           o.group_rows(groups, 20, space.runs());
         }},
        {"embedding_bag_backward",
         [=, this](Ops& o) {
           group();
           o.embedding_bag_backward(space.runs(), gradients(), grads.floats());
         }},
        {"embedding_bag_update",
         [=, this](Ops& o) {
           group();
           o.embedding_bag_update(step, table.rows(step.rule), space.runs(), gradients());
         }},
        {"row_square_sums",
         [=, this](Ops& o) { o.row_square_sums(count, grads.floats(), touched); }},
        {"sparse_update",
         [=, this](Ops& o) {
           o.sparse_update(step, table.rows(step.rule), rows, count, grads.floats(), {}, 8);
         }},
        {"sum_table_gradients",
         [=, this](Ops& o) {
           group();
           const std::vector<BagGradient> from = gradients();
           const ShardUpdate sums{{}, {}, from, space.runs()};
           const TableGradients to{dense.floats(), touched};
           o.sum_table_gradients({&sums, 1}, {&to, 1});
         }},
        {"update_tables",
         [=, this](Ops& o) {
           const TableUpdate update{table.rows(step.rule), {grads.floats(), flags}};
           o.update_tables(step, {&update, 1});
         }},
        {"copy_blocks",
         [=, this](Ops& o) {
           BlockCopy b;
           b.src = x.matrix().data, b.dst = dx.matrix().data;
           b.src_stride = b.dst_stride = x.stride();
           b.rows = 5, b.cols = 8, b.accumulate = true;
           o.copy_blocks({&b, 1});
         }},
        {"convert", [=, this](Ops& o) { o.convert(x.matrix(), dx.matrix()); }},
        {"add", [=, this](Ops& o) { o.add(x.matrix(), u.matrix()); }},
        {"fill_zero", [=, this](Ops& o) { o.fill_zero(touched.data(), 80); }},
        {"find_non_finite",
         [=, this](Ops& o) {
           x.set(2, 3, INFINITY);
           std::vector<float> bad = {0};
           o.find_non_finite(x.matrix(), bad);
           x.set(2, 3, 1);
         }},
        {"dense_update",
         [=, this](Ops& o) {
           std::vector<float> weights(20, 1.0f), gradient(20, 0.5f), state(20, 0.25f);
           o.dense_update(step, weights, gradient, state, {}, {});
         }},
        {"fill_uniform", [=, this](Ops& o) { o.fill_uniform(3, 5, 2, 0.5f, table.rows()); }},
    };
  }
};

TEST(Checked, TheResultsOfTheCpuPass) {
  Machine machine;
  auto checked = make_checked_ops(make_cpu_ops(*machine.device, *machine.stream, 2),
                                  *machine.device, *machine.stream);
  Calls calls;
  for (const auto& [name, call] : calls.all()) EXPECT_NO_THROW(call(*checked)) << name;
}

TEST(Checked, AWrongOperationIsNamed) {
  Machine machine;
  auto checked = make_checked_ops(std::make_unique<Faulty>(), *machine.device, *machine.stream);
  Calls calls;
  for (const auto& [name, call] : calls.all()) {
    try {
      call(*checked);
      ADD_FAILURE() << name << " passed";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kFailure);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  }
}

TEST(Checked, AWrongUpdateAfterRightSumsIsFound) {
  Machine machine;
  auto faulty = std::make_unique<Faulty>();
  faulty->spoils_sums = false;
  auto checked = make_checked_ops(std::move(faulty), *machine.device, *machine.stream);
  Calls calls;
  calls.group();
  const BagGradient gradients[] = {{calls.pooled_gradient.floats(), nullptr}};
  EXPECT_THROW(checked->embedding_bag_update(step_of(OptimizerRule::kSgd), calls.table.rows(),
                                             calls.space.runs(), gradients),
               Error);
}

TEST(Checked, AWrongLayerUpdateAfterRightGradientsIsFound) {
  Machine machine;
  auto faulty = std::make_unique<Faulty>();
  faulty->spoils_sums = false;
  auto checked = make_checked_ops(std::move(faulty), *machine.device, *machine.stream);
  Calls calls;
  std::vector<float> values(48, 0.5f);
  EXPECT_THROW(checked->linear_backward_update(step_of(OptimizerRule::kSgd), calls.layer(values),
                                               {values, {}, {}, {}}, {calls.bias, {}, {}, {}}),
               Error);
}

/// The reference, which does not add what layers add to products.
class Forgetful final : public reference::ReferenceOps {
 public:
  using ReferenceOps::run;
  void run(const LinearForward& o) override {
    LinearForward without = o;
    without.added = {};
    ReferenceOps::run(without);
  }
  void run(const LinearBackwardInput& o) override {
    ReferenceOps::run(LinearBackwardInput{o.dz, o.w, o.dx});
  }
};

TEST(Checked, WhatLayersAddToProductsIsChecked) {
  for (const bool in_place : {false, true}) {
    for (const bool forgets : {false, true}) {
      Machine machine;
      auto checked = make_checked_ops(forgets ? std::make_unique<Forgetful>()
                                              : make_cpu_ops(*machine.device, *machine.stream, 2),
                                      *machine.device, *machine.stream);
      Calls calls;
      Cells more = Cells::random(5, 6, 20);
      LinearForward forward;
      forward.x = calls.x.matrix(), forward.w = calls.w.matrix(), forward.bias = calls.bias;
      forward.y = calls.y.matrix(), forward.added = in_place ? forward.y : more.matrix();
      std::vector<float> values(48, 0.5f), aside(48, 0.5f);
      LinearBackward backward = calls.layer(values);
      if (in_place) calls.dx = Cells::random(5, 8, 21);
      backward.dx = calls.dx.matrix();
      backward.added = in_place ? backward.dx : calls.u.matrix();
      const LinearBackwardInput input{calls.dz.matrix(), calls.w.matrix(), calls.dx.matrix(),
                                      backward.added};
      if (forgets) {
        EXPECT_THROW(checked->run(forward), Error);
        EXPECT_THROW(checked->run(backward), Error);
        EXPECT_THROW(checked->run(input), Error);
        continue;
      }
      EXPECT_NO_THROW(checked->run(forward));
      EXPECT_NO_THROW(checked->run(backward));
      EXPECT_NO_THROW(checked->run(input));
      EXPECT_NO_THROW(checked->linear_backward_update(
          step_of(OptimizerRule::kSgd), backward, {aside, {}, {}, {}}, {calls.bias, {}, {}, {}}));
    }
  }
}

/// Their error is that of the large sum. It is more than that of the small difference.
TEST(Checked, LargeSumsWithoutALargeBiasPass) {
  Machine machine;
  auto checked = make_checked_ops(make_cpu_ops(*machine.device, *machine.stream, 2),
                                  *machine.device, *machine.stream);
  constexpr int64_t kInner = 1000;
  for (const float sign : {1.0f, -1.0f}) {
    Cells x(4, kInner), w(3, kInner), y(4, 3);
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
    for (int64_t c = 0; c < kInner; ++c) {
      for (int64_t r = 0; r < 4; ++r) x.set(r, c, uniform(random));
      for (int64_t r = 0; r < 3; ++r) w.set(r, c, sign * uniform(random));
    }
    const std::vector<float> bias(3, -sign * static_cast<float>(kInner));
    EXPECT_NO_THROW(
        checked->linear_forward(x.matrix(), w.matrix(), bias, Activation::kNone, y.matrix(), {}));
  }
}

TEST(Checked, DifferencesOfLargeSumsOfCrossLayersPass) {
  Machine machine;
  auto checked = make_checked_ops(make_cpu_ops(*machine.device, *machine.stream, 2),
                                  *machine.device, *machine.stream);
  constexpr int64_t kRows = 20, kCols = 16;
  Cells x0 = Cells::random(kRows, kCols, 1), t = Cells::random(3 * kRows, kCols, 2);
  Cells dy = Cells::random(2 * kRows, kCols, 3), dz = Cells::random(kRows, kCols, 4);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kCols; ++c) {
      for (int64_t l = 0; l < 3; ++l) {
        t.set(l * kRows + r, c, (l == 1 ? -1000.0f : 1000.0f) + t.at(l * kRows + r, c));
      }
      dy.set(r, c, 1e-3f * dy.at(r, c));
      dy.set(kRows + r, c, dz.at(r, c) * (1 + 1e-4f * dy.at(kRows + r, c)));
    }
  }
  Cells du(kRows, kCols), sum(kRows, kCols);
  EXPECT_NO_THROW(checked->cross_input_backward(x0.matrix(), t.matrix(), dy.matrix(), dz.matrix(),
                                                du.matrix(), sum.matrix()));
}

TEST(Checked, EveryOptimizerPassesInBf16Tables) {
  Machine machine;
  auto checked = make_checked_ops(make_cpu_ops(*machine.device, *machine.stream, 1),
                                  *machine.device, *machine.stream);
  for (const OptimizerStep& step : every_rule(kSparse)) {
    Calls calls;
    calls.group();
    Table table(20, 8, DType::kBFloat16, 3);
    const BagGradient gradients[] = {{calls.pooled_gradient.floats(), nullptr}};
    EXPECT_NO_THROW(
        checked->embedding_bag_update(step, table.rows(step.rule), calls.space.runs(), gradients));
  }
}

}  // namespace
}  // namespace dlrm
