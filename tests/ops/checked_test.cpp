#include <functional>

#include "bags.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {
namespace {

/// The reference with one wrong element in every result.
class Faulty final : public reference::ReferenceOps {
 public:
  std::string name() const override { return "faulty"; }

  void linear_forward(Matrix x, Matrix w, View<const float> b, Act act, Matrix y,
                      Matrix z) override {
    ReferenceOps::linear_forward(x, w, b, act, y, z);
    spoil(y);
  }
  void linear_backward_input(Matrix dz, Matrix w, Matrix dx) override {
    ReferenceOps::linear_backward_input(dz, w, dx);
    spoil(dx);
  }
  void linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw, View<float> db) override {
    ReferenceOps::linear_backward_weight(dz, x, dw, db);
    db.back() *= 1.01f;
  }
  void activation_backward(Act act, Matrix y, Matrix z, Matrix dy) override {
    ReferenceOps::activation_backward(act, y, z, dy);
    spoil(dy);
  }
  void linear_backward(const LinearGradients& layer) override {
    ReferenceOps::linear_backward_weight(layer.dy, layer.x, layer.dw, layer.dbias);
    layer.dw(0, 0) += spoils_sums ? 1e-2f : 0.0f;
  }
  void linear_backward_update(const OptimizerStep& step, const LinearGradients& layer,
                              const DenseTensor& weight, const DenseTensor& bias) override {
    ReferenceOps::linear_backward_update(step, layer, weight, bias);
    weight.values.back() += 1e-3f;
  }
  void run(const DotForward& o) override { run_wrong(o, o.z); }
  void run(const DotBackward& o) override { run_wrong(o, o.de); }
  void run(const AveragePoolForward& o) override { run_wrong(o, o.y); }
  void run(const AveragePoolBackward& o) override { run_wrong(o, o.de); }
  void run(const CrossForward& o) override { run_wrong(o, o.y); }
  void run(const CrossBackward& o) override { run_wrong(o, o.dx0); }
  void run(const FmForward& o) override { run_wrong(o, o.z); }
  void run(const FmBackward& o) override { run_wrong(o, o.de); }
  void bce_with_logits(Matrix l, View<const float> y, float scale, View<double> loss,
                       Matrix dl) override {
    ReferenceOps::bce_with_logits(l, y, scale, loss, dl);
    loss[0] *= 1.001;
  }
  void sigmoid(Matrix l, View<float> p) override {
    ReferenceOps::sigmoid(l, p);
    p.back() += 1e-4f;
  }
  void embedding_bag_forward(View<const BagGroup> groups) override {
    ReferenceOps::embedding_bag_forward(groups);
    spoil(groups.back().pooled);
  }
  void group_rows(View<const IdGroup> groups, int64_t rows, SegmentedRows runs) override {
    ReferenceOps::group_rows(groups, rows, runs);
    runs.occurrences.back().bag ^= 1;
  }
  void embedding_bag_backward(SegmentedRows runs, View<const BagGradient> g,
                              MatrixView<float> grads) override {
    ReferenceOps::embedding_bag_backward(runs, g, grads);
    if (spoils_sums) spoil(grads.row_range(0, runs.count[0]));
  }
  void row_square_sums(View<const int64_t> count, MatrixView<const float> grads,
                       View<float> sums) override {
    ReferenceOps::row_square_sums(count, grads, sums);
    sums[0] *= 1.001f;
  }
  void sparse_update(const OptimizerStep& step, const RowTable& table, View<const int64_t> rows,
                     View<const int64_t> count, MatrixView<const float> grads, bool by_row,
                     View<const float> sums, int64_t width) override {
    ReferenceOps::sparse_update(step, table, rows, count, grads, by_row, sums, width);
    static_cast<float*>(table.weights)[rows[0] * table.stride] += 1e-3f;
  }
  void embedding_bag_update(const OptimizerStep& step, const RowTable& table, SegmentedRows runs,
                            View<const BagGradient> g) override {
    ReferenceOps::embedding_bag_update(step, table, runs, g);
    static_cast<float*>(table.weights)[runs.rows[0] * table.stride] += 1e-3f;
  }
  void scatter_rows(View<const int64_t> rows, View<const int64_t> count,
                    MatrixView<const float> grads, MatrixView<float> dense,
                    View<float> touched) override {
    ReferenceOps::scatter_rows(rows, count, grads, dense, touched);
    touched.back() = 2;
  }
  void touched_rows(View<const float> touched, View<int64_t> rows, View<int64_t> count) override {
    ReferenceOps::touched_rows(touched, rows, count);
    ++rows[0];
  }
  void copy_blocks(View<const BlockCopy> blocks) override {
    ReferenceOps::copy_blocks(blocks);
    *static_cast<float*>(blocks.back().dst) += 1;
  }
  void convert(Matrix x, Matrix y) override {
    ReferenceOps::convert(x, y);
    spoil(y);
  }
  void add(Matrix x, Matrix y) override {
    ReferenceOps::add(x, y);
    spoil(y);
  }
  void fill_zero(void* data, int64_t bytes) override { static_cast<char*>(data)[bytes - 1] = 1; }
  void find_non_finite(Matrix, View<float>) override {}
  void dense_update(const OptimizerStep& step, View<float> w, View<const float> g, View<float> s1,
                    View<float> s2, View<BFloat16> copy) override {
    ReferenceOps::dense_update(step, w, g, s1, s2, copy);
    w.back() += 1e-3f;
  }
  void fill_uniform(uint64_t key, int64_t row, int64_t column, float bound,
                    const RowTable& table) override {
    ReferenceOps::fill_uniform(key, row, column, bound, table);
    static_cast<float*>(table.weights)[0] += 1e-6f;
  }

  bool spoils_sums = true;

 private:
  template <class Operation>
  void run_wrong(const Operation& o, const Matrix& result) {
    ReferenceOps::run(o);
    spoil(result);
  }
  /// The last element: as wrong as a lost low half of a product would make it.
  static void spoil(const Matrix& m) {
    float& last = *static_cast<float*>(m.element(m.rows - 1, m.cols - 1));
    last += 1e-3f * (1 + std::abs(last));
  }
};

/// Small inputs for one call of each operation.
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
  std::vector<float> touched = std::vector<float>(20), flags = std::vector<float>(20, 1.0f);
  std::vector<double> loss = {0};
  std::vector<int64_t> rows = {2, 7, 19}, count = {3}, found = std::vector<int64_t>(20), one = {0};

  void group() {
    const IdGroup groups[] = {bags.group()};
    Machine().reference()->group_rows(groups, 20, space.runs());
  }

  std::vector<float> layer_dw = std::vector<float>(48), layer_dbias = std::vector<float>(6);
  /// The layer of x, y and w; w may be somewhere else.
  LinearGradients layer(View<float> weights = {}) {
    LinearGradients l;
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
           o.linear_forward(x.matrix(), w.matrix(), bias, Act::kNone, y.matrix(), {});
         }},
        {"linear_backward_input",
         [=, this](Ops& o) { o.linear_backward_input(dz.matrix(), w.matrix(), dx.matrix()); }},
        {"linear_backward_weight",
         [=, this](Ops& o) {
           o.linear_backward_weight(dz.matrix(), x.matrix(), dw.floats(), bias);
         }},
        {"activation_backward",
         [=, this](Ops& o) { o.activation_backward(Act::kRelu, y.matrix(), {}, dz.matrix()); }},
        {"linear_backward", [=, this](Ops& o) { o.linear_backward(layer()); }},
        {"linear_backward_update",
         [=, this](Ops& o) {
           std::vector<float> values(48, 0.5f), state(48, 0.25f), more(6, 0.25f);
           o.linear_backward_update(step, layer(values), {values, state, {}, {}},
                                    {bias, more, {}, {}});
         }},
        {"dot_forward", [=, this](Ops& o) { o.dot_forward(x.matrix(), e.floats(), z.matrix()); }},
        {"dot_backward",
         [=, this](Ops& o) {
           o.dot_backward(x.matrix(), e.floats(), z.matrix(), dx.matrix(), de.floats());
         }},
        {"average_pool_forward",
         [=, this](Ops& o) { o.average_pool_forward(e.floats(), 7, pooled_e.matrix()); }},
        {"average_pool_backward",
         [=, this](Ops& o) { o.average_pool_backward(pooled_e.matrix(), 7, de.floats()); }},
        {"cross_forward",
         [=, this](Ops& o) { o.cross_forward(x.matrix(), u.matrix(), x.matrix(), dx.matrix()); }},
        {"cross_backward",
         [=, this](Ops& o) {
           o.cross_backward(x.matrix(), u.matrix(), x.matrix(), dx.matrix(), dx0.matrix());
         }},
        {"fm_forward",
         [=, this](Ops& o) {
           o.run(FmForward{x.matrix(), e.floats(), fm.matrix()});
         }},
        {"fm_backward",
         [=, this](Ops& o) {
           o.run(FmBackward{x.matrix(), e.floats(), fm.matrix(), dx.matrix(), de.floats()});
         }},
        {"bce_with_logits",
         [=, this](Ops& o) {
           o.bce_with_logits(logits.matrix(), labels, 0.2f, loss, dlogits.matrix());
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
           o.sparse_update(step, table.rows(step.rule), rows, count, grads.floats(), false, {}, 8);
         }},
        {"scatter_rows",
         [=, this](Ops& o) {
           o.scatter_rows(rows, count, grads.floats(), dense.floats(), touched);
         }},
        {"touched_rows", [=, this](Ops& o) { o.touched_rows(flags, found, one); }},
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

TEST(Checked, PassesWhatTheCpuComputes) {
  Machine machine;
  auto checked = make_checked_ops(make_cpu_ops(*machine.device, *machine.stream, 2),
                                  *machine.device, *machine.stream);
  Calls calls;
  for (const auto& [name, call] : calls.all()) EXPECT_NO_THROW(call(*checked)) << name;
}

TEST(Checked, NamesTheOperationThatIsWrong) {
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

TEST(Checked, FindsAWrongUpdateBehindRightSums) {
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

TEST(Checked, FindsAWrongLayerUpdateBehindRightGradients) {
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

TEST(Checked, PassesEveryOptimizerInBf16Tables) {
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
