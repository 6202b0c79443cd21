#include <utility>

#include "mirror.h"

namespace dlrm {
namespace {

// mirrored(m, x): x with its pointers collected or moved.

template <class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) T mirrored(Mirror&, T value) {
  return value;
}

template <class T>
View<T> mirrored(Mirror& m, View<T> view) {
  return {m.at(view.data(), static_cast<int64_t>(view.size())), view.size()};
}

int64_t reach(int64_t rows, int64_t cols, int64_t stride) {
  return rows > 0 && cols > 0 ? (rows - 1) * stride + cols : 0;
}

template <class T>
MatrixView<T> mirrored(Mirror& m, MatrixView<T> x) {
  x.data = m.at(x.data, reach(x.rows, x.cols, x.stride));
  return x;
}

Matrix mirrored(Mirror& m, Matrix x) {
  const auto size = static_cast<int64_t>(size_of(x.type));
  x.data = m.at(x.data, reach(x.rows, x.cols, x.stride) * size);
  return x;
}

OptimizerStep mirrored(Mirror& m, OptimizerStep step) {
  step.skip_update = m.at(step.skip_update, 1);
  step.device_hyperparams = m.at(step.device_hyperparams, 1);
  return step;
}

RowTable mirrored(Mirror& m, RowTable t) {
  const auto size = static_cast<int64_t>(size_of(t.type));
  const int64_t state_width = t.state_stride == 1 ? 1 : t.width;
  t.weights = m.at(t.weights, reach(t.rows, t.width, t.stride) * size);
  t.state1 = m.at(t.state1, reach(t.rows, state_width, t.state_stride));
  t.state2 = m.at(t.state2, reach(t.rows, state_width, t.state_stride));
  return t;
}

SegmentedRows mirrored(Mirror& m, SegmentedRows runs) {
  return {mirrored(m, runs.rows), mirrored(m, runs.starts), mirrored(m, runs.occurrences),
          mirrored(m, runs.count)};
}

BagGroup mirrored(Mirror& m, BagGroup g) {
  g.ids = m.at(g.ids, g.bags > 0 ? g.offsets[g.bags] : 0);
  g.offsets = m.at(g.offsets, g.bags + 1);
  g.scale = m.at(g.scale, g.bags);
  g.table = mirrored(m, g.table);
  g.pooled = mirrored(m, g.pooled);
  return g;
}

IdGroup mirrored(Mirror& m, IdGroup g) {
  g.ids = m.at(g.ids, g.bags > 0 ? g.offsets[g.bags] : 0);
  g.offsets = m.at(g.offsets, g.bags + 1);
  return g;
}

IdCheck mirrored(Mirror& m, IdCheck c) {
  const int64_t ids = c.bags > 0 && c.offsets ? c.offsets[c.bags] : c.capacity;
  c.ids = m.at(c.ids, c.bags > 0 ? ids * (c.narrow ? 4 : 8) : 0);
  if (c.offsets) c.offsets = m.at(c.offsets, c.bags + 1);
  if (c.samples) c.samples = m.at(c.samples, c.bags);
  if (c.lengths) c.lengths = m.at(c.lengths, c.bags);
  return c;
}

PackedList mirrored(Mirror& m, PackedList list) {
  if (list.from) list.from = m.at(list.from, list.count);
  list.to = m.at(list.to, list.count);
  return list;
}

int64_t ids_of(const IdPart& p) {
  int64_t ids = p.lengths ? 0 : p.bags * p.length;
  for (int64_t b = 0; p.lengths && b < p.bags; ++b) ids += p.lengths[b];
  return ids;
}

IdPart mirrored(Mirror& m, IdPart p) {
  p.ids = m.at(p.ids, ids_of(p) * (p.narrow ? 4 : 8));
  p.lengths = m.at(p.lengths, p.bags);
  return p;
}

BagGradient mirrored(Mirror& m, BagGradient g) {
  g.scale = m.at(g.scale, g.pooled.rows);
  g.pooled = mirrored(m, g.pooled);
  return g;
}

BlockCopy mirrored(Mirror& m, BlockCopy b) {
  const auto rows_of = [&](const int32_t* list) {
    int64_t rows = list ? 0 : b.rows;
    for (int64_t r = 0; list && r < b.rows; ++r) rows = std::max<int64_t>(rows, list[r] + 1);
    return rows;
  };
  const auto bytes = [&](const int32_t* list, int64_t stride, DType type) {
    return reach(rows_of(list), b.cols, stride) * static_cast<int64_t>(size_of(type));
  };
  const BlockCopy host = b;
  b.src = m.at(host.src, bytes(host.src_rows, host.src_stride, host.src_type));
  b.dst = m.at(host.dst, bytes(host.dst_rows, host.dst_stride, host.dst_type));
  b.scale = m.at(host.scale, host.rows);
  b.src_rows = m.at(host.src_rows, host.rows);
  b.dst_rows = m.at(host.dst_rows, host.rows);
  return b;
}

LinearGradients mirrored(Mirror& m, LinearGradients l) {
  for (Matrix* part : {&l.y, &l.z, &l.dy, &l.x, &l.w, &l.dx}) *part = mirrored(m, *part);
  l.dw = mirrored(m, l.dw);
  l.dbias = mirrored(m, l.dbias);
  return l;
}

DenseTensor mirrored(Mirror& m, DenseTensor t) {
  return {mirrored(m, t.values), mirrored(m, t.state1), mirrored(m, t.state2), mirrored(m, t.copy)};
}

// Lists of descriptors stay in the host's memory.
template <class T>
std::vector<T> mirrored_list(Mirror& m, View<const T> list) {
  std::vector<T> moved;
  for (const T& item : list) moved.push_back(mirrored(m, item));
  return moved;
}
std::vector<BagGroup> mirrored(Mirror& m, View<const BagGroup> l) { return mirrored_list(m, l); }
std::vector<IdGroup> mirrored(Mirror& m, View<const IdGroup> l) { return mirrored_list(m, l); }
std::vector<BagGradient> mirrored(Mirror& m, View<const BagGradient> l) {
  return mirrored_list(m, l);
}
std::vector<BlockCopy> mirrored(Mirror& m, View<const BlockCopy> l) { return mirrored_list(m, l); }

std::vector<IdCheck> mirrored(Mirror& m, View<const IdCheck> l) { return mirrored_list(m, l); }
std::vector<PackedList> mirrored(Mirror& m, View<const PackedList> l) {
  return mirrored_list(m, l);
}

/// Filters with the parts that they refer to.
struct Filters {
  std::vector<std::vector<IdPart>> parts;
  std::vector<IdFilter> filters;
  operator View<const IdFilter>() const { return filters; }
};
Filters mirrored(Mirror& m, View<const IdFilter> list) {
  Filters moved;
  for (IdFilter f : list) {
    int64_t ids = 0, bags = 0;
    for (const IdPart& part : f.parts) ids += ids_of(part), bags += part.bags;
    moved.parts.push_back(mirrored_list(m, f.parts));
    f.parts = moved.parts.back();
    f.ids = m.at(f.ids, ids);
    f.offsets = m.at(f.offsets, bags + 1);
    moved.filters.push_back(f);
  }
  return moved;
}

/// Shards with the lists that they refer to.
struct Shards {
  std::vector<std::vector<IdGroup>> groups;
  std::vector<std::vector<BagGradient>> gradients;
  std::vector<ShardUpdate> shards;
  operator View<const ShardUpdate>() const { return shards; }
};
Shards mirrored(Mirror& m, View<const ShardUpdate> list) {
  Shards moved;
  for (const ShardUpdate& s : list) {
    moved.groups.push_back(mirrored(m, s.groups));
    moved.gradients.push_back(mirrored(m, s.gradients));
    moved.shards.push_back(
        {mirrored(m, s.table), moved.groups.back(), moved.gradients.back(), mirrored(m, s.runs)});
  }
  return moved;
}

const std::function<void()>& mirrored(Mirror&, const std::function<void()>& progress) {
  return progress;
}

/// Moves each operand of an operation in place.
struct MovedOperands {
  Mirror& mirror;
  template <class T>
  void in(const char*, T& operand) {
    operand = mirrored(mirror, operand);
  }
  template <class T>
  void out(const char*, T& operand, const Tolerance& = {}) {
    operand = mirrored(mirror, operand);
  }
  template <class T>
  void inout(const char*, T& operand, const Tolerance& = {}) {
    operand = mirrored(mirror, operand);
  }
};

class MirroredOps final : public Ops {
 public:
  MirroredOps(std::shared_ptr<Device> device, std::unique_ptr<Stream> stream,
              std::unique_ptr<Ops> inner)
      : device_(std::move(device)), stream_(std::move(stream)), inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  int threads() const override { return inner_->threads(); }

  void linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                      Matrix z) override {
    call([&](auto... a) { inner_->linear_forward(a...); }, x, w, bias, act, y, z);
  }
  void linear_backward_input(Matrix dz, Matrix w, Matrix dx) override {
    call([&](auto... a) { inner_->linear_backward_input(a...); }, dz, w, dx);
  }
  void linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                              View<float> dbias) override {
    call([&](auto... a) { inner_->linear_backward_weight(a...); }, dz, x, dw, dbias);
  }
  void activation_backward(Act act, Matrix y, Matrix z, Matrix dy) override {
    call([&](auto... a) { inner_->activation_backward(a...); }, act, y, z, dy);
  }
  void linear_backward(const LinearGradients& layer) override {
    call([&](auto... a) { inner_->linear_backward(a...); }, layer);
  }
  void linear_backward_update(const OptimizerStep& step, const LinearGradients& layer,
                              const DenseTensor& weight, const DenseTensor& bias) override {
    call([&](auto... a) { inner_->linear_backward_update(a...); }, step, layer, weight, bias);
  }

#define DLRM_MIRROR_OPERATION(Operation) \
  void run(const Operation& operation) override { run_moved(operation); }
  DLRM_OPERATIONS(DLRM_MIRROR_OPERATION)
#undef DLRM_MIRROR_OPERATION

  void bce_with_logits(Matrix logits, View<const float> labels, float scale, View<double> loss,
                       Matrix dlogits) override {
    call([&](auto... a) { inner_->bce_with_logits(a...); }, logits, labels, scale, loss, dlogits);
  }
  void sigmoid(Matrix logits, View<float> p) override {
    call([&](auto... a) { inner_->sigmoid(a...); }, logits, p);
  }

  void embedding_bag_forward(View<const BagGroup> groups) override {
    call([&](const auto&... a) { inner_->embedding_bag_forward(a...); }, groups);
  }
  void check_ids(View<const IdCheck> lists, View<float> flag, View<int64_t> where) override {
    call([&](const auto&... a) { inner_->check_ids(a...); }, lists, flag, where);
  }
  void unpack(View<const PackedList> lists) override {
    call([&](const auto&... a) { inner_->unpack(a...); }, lists);
  }
  void filter_ids(View<const IdFilter> filters) override {
    call([&](const auto&... a) { inner_->filter_ids(a...); }, filters);
  }
  void group_rows(View<const IdGroup> groups, int64_t rows, SegmentedRows runs) override {
    call([&](const auto&... a) { inner_->group_rows(a...); }, groups, rows, runs);
  }
  void embedding_bag_backward(SegmentedRows runs, View<const BagGradient> gradients,
                              MatrixView<float> grads) override {
    call([&](const auto&... a) { inner_->embedding_bag_backward(a...); }, runs, gradients, grads);
  }
  void row_square_sums(View<const int64_t> count, MatrixView<const float> grads,
                       View<float> sums) override {
    call([&](auto... a) { inner_->row_square_sums(a...); }, count, grads, sums);
  }
  void sparse_update(const OptimizerStep& step, const RowTable& table, View<const int64_t> rows,
                     View<const int64_t> count, MatrixView<const float> grads, bool by_row,
                     View<const float> square_sums, int64_t full_width) override {
    call([&](auto... a) { inner_->sparse_update(a...); }, step, table, rows, count, grads, by_row,
         square_sums, full_width);
  }
  void embedding_bag_update(const OptimizerStep& step, const RowTable& table, SegmentedRows runs,
                            View<const BagGradient> gradients) override {
    call([&](const auto&... a) { inner_->embedding_bag_update(a...); }, step, table, runs,
         gradients);
  }
  void group_rows_of(View<const ShardUpdate> shards,
                     const std::function<void()>& progress) override {
    call([&](const auto&... a) { inner_->group_rows_of(a...); }, shards, progress);
  }
  void embedding_bag_updates(const OptimizerStep& step, View<const ShardUpdate> shards,
                             const std::function<void()>& progress) override {
    call([&](const auto&... a) { inner_->embedding_bag_updates(a...); }, step, shards, progress);
  }
  void scatter_rows(View<const int64_t> rows, View<const int64_t> count,
                    MatrixView<const float> grads, MatrixView<float> dense,
                    View<float> touched) override {
    call([&](auto... a) { inner_->scatter_rows(a...); }, rows, count, grads, dense, touched);
  }
  void touched_rows(View<const float> touched, View<int64_t> rows, View<int64_t> count) override {
    call([&](auto... a) { inner_->touched_rows(a...); }, touched, rows, count);
  }

  void copy_blocks(View<const BlockCopy> blocks) override {
    call([&](const auto&... a) { inner_->copy_blocks(a...); }, blocks);
  }
  void convert(Matrix x, Matrix y) override {
    call([&](auto... a) { inner_->convert(a...); }, x, y);
  }
  void add(Matrix x, Matrix y) override {
    call([&](auto... a) { inner_->add(a...); }, x, y);
  }
  void fill_zero(void* data, int64_t bytes) override {
    call([&](View<char> all) { inner_->fill_zero(all.data(), bytes); },
         View<char>(static_cast<char*>(data), static_cast<size_t>(bytes)));
  }
  void find_non_finite(Matrix x, View<float> bad) override {
    call([&](auto... a) { inner_->find_non_finite(a...); }, x, bad);
  }

  void dense_update(const OptimizerStep& step, View<float> w, View<const float> g, View<float> s1,
                    View<float> s2, View<BFloat16> copy) override {
    call([&](auto... a) { inner_->dense_update(a...); }, step, w, g, s1, s2, copy);
  }
  void fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                    const RowTable& table) override {
    call([&](auto... a) { inner_->fill_uniform(a...); }, key, first_row, first_column, bound,
         table);
  }

 private:
  template <class Operation>
  void run_moved(Operation operation) {
    Mirror mirror(*device_, *stream_);
    MovedOperands moved{mirror};
    Operation(operation).operands(moved);
    mirror.upload();
    operation.operands(moved);
    inner_->run(operation);
    mirror.download();
  }

  template <class Operation, class... A>
  void call(const Operation& operation, const A&... arguments) {
    Mirror mirror(*device_, *stream_);
    (static_cast<void>(mirrored(mirror, arguments)), ...);
    mirror.upload();
    operation(mirrored(mirror, arguments)...);
    mirror.download();
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> inner_;
};

}  // namespace

std::unique_ptr<Ops> make_mirrored_ops(std::shared_ptr<Device> device,
                                       std::unique_ptr<Stream> stream, std::unique_ptr<Ops> inner) {
  return std::make_unique<MirroredOps>(std::move(device), std::move(stream), std::move(inner));
}

}  // namespace dlrm
