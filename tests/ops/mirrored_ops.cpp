#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "mirror.h"

namespace dlrm {
namespace {

// mirrored(m, x) collects the memory that x points to, or returns x with pointers to the copies.

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
          mirrored(m, runs.count), mirrored(m, runs.weights)};
}

BagGroup mirrored(Mirror& m, BagGroup g) {
  g.ids = m.at(g.ids, g.bags > 0 ? g.offsets[g.bags] : 0);
  if (g.weights) g.weights = m.at(g.weights, g.bags > 0 ? g.offsets[g.bags] : 0);
  g.offsets = m.at(g.offsets, g.bags + 1);
  g.scale = m.at(g.scale, g.bags);
  g.table = mirrored(m, g.table);
  g.pooled = mirrored(m, g.pooled);
  return g;
}

IdGroup mirrored(Mirror& m, IdGroup g) {
  g.ids = m.at(g.ids, g.bags > 0 ? g.offsets[g.bags] : 0);
  if (g.weights) g.weights = m.at(g.weights, g.bags > 0 ? g.offsets[g.bags] : 0);
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

TableGradients mirrored(Mirror& m, TableGradients g) {
  return {mirrored(m, g.rows), mirrored(m, g.touched)};
}

TableUpdate mirrored(Mirror& m, TableUpdate u) {
  return {mirrored(m, u.table), mirrored(m, u.gradients)};
}

BlockCopy mirrored(Mirror& m, BlockCopy b) {
  // A list without rows keeps its place, so that its block stays in the order of blocks there.
  const auto rows_of = [&](const int32_t* list) {
    int64_t rows = list ? std::min<int64_t>(b.rows, 1) : b.rows;
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

DenseTensor mirrored(Mirror& m, DenseTensor t) {
  return {mirrored(m, t.values), mirrored(m, t.state1), mirrored(m, t.state2), mirrored(m, t.copy)};
}

/// Replaces the pointers of each operand of an operation. Lists of descriptors stay in the host's
/// memory; this object keeps the changed lists.
class MovedOperands {
 public:
  explicit MovedOperands(Mirror& mirror) : mirror_(mirror) {}

  template <class T>
  void in(const char* name, T& operand) {
    mirror_.operand(name, false);
    operand = moved(operand);
  }
  template <class T>
  void out(const char* name, T& operand, const Tolerance& = {}) {
    mirror_.operand(name, true);
    operand = moved(operand);
  }
  template <class T>
  void inout(const char* name, T& operand, const Tolerance& = {}) {
    mirror_.operand(name, true);
    operand = moved(operand);
  }

 private:
  template <class T>
  auto moved(const T& operand) {
    return mirrored(mirror_, operand);
  }
  View<const BagGroup> moved(View<const BagGroup> list) { return keep(groups_, list); }
  View<const IdGroup> moved(View<const IdGroup> list) { return keep(ids_, list); }
  View<const BagGradient> moved(View<const BagGradient> list) { return keep(gradients_, list); }
  View<const BlockCopy> moved(View<const BlockCopy> list) { return keep(blocks_, list); }
  View<const IdCheck> moved(View<const IdCheck> list) { return keep(checks_, list); }
  View<const PackedList> moved(View<const PackedList> list) { return keep(packed_, list); }
  View<const IdPart> moved(View<const IdPart> list) { return keep(parts_, list); }
  View<const IdFilter> moved(View<const IdFilter> list) { return keep(filters_, list); }
  View<const UpdatedShard> moved(View<const UpdatedShard> list) { return keep(shards_, list); }

  View<const TableGradients> moved(View<const TableGradients> list) { return keep(sums_, list); }
  View<const TableUpdate> moved(View<const TableUpdate> list) { return keep(tables_, list); }

  IdFilter moved(IdFilter f) {
    int64_t ids = 0, bags = 0;
    for (const IdPart& part : f.parts) ids += ids_of(part), bags += part.bags;
    f.parts = moved(f.parts);
    f.ids = mirror_.at(f.ids, ids);
    f.offsets = mirror_.at(f.offsets, bags + 1);
    return f;
  }
  UpdatedShard moved(const UpdatedShard& s) {
    return {mirrored(mirror_, s.table), moved(s.groups), moved(s.gradients),
            mirrored(mirror_, s.runs)};
  }

  template <class T>
  using Lists = std::deque<std::vector<T>>;
  template <class T>
  View<const T> keep(Lists<T>& lists, View<const T> list) {
    std::vector<T> items;
    for (const T& item : list) items.push_back(moved(item));
    return lists.emplace_back(std::move(items));
  }

  Mirror& mirror_;
  Lists<BagGroup> groups_;
  Lists<IdGroup> ids_;
  Lists<BagGradient> gradients_;
  Lists<BlockCopy> blocks_;
  Lists<IdCheck> checks_;
  Lists<PackedList> packed_;
  Lists<IdPart> parts_;
  Lists<IdFilter> filters_;
  Lists<UpdatedShard> shards_;
  Lists<TableGradients> sums_;
  Lists<TableUpdate> tables_;
};

class MirroredOps final : public Ops {
 public:
  MirroredOps(std::shared_ptr<Device> device, std::unique_ptr<Stream> stream,
              std::unique_ptr<Ops> inner, Outputs* noted)
      : device_(std::move(device)),
        stream_(std::move(stream)),
        inner_(std::move(inner)),
        noted_(noted) {}

  std::string name() const override { return inner_->name(); }
  int threads() const override { return inner_->threads(); }

#define DLRM_MIRROR_OPERATION(Operation) \
  void run(const Operation& operation) override { run_moved(operation); }
  DLRM_OPERATIONS(DLRM_MIRROR_OPERATION)
  DLRM_SEQUENCES(DLRM_MIRROR_OPERATION)
#undef DLRM_MIRROR_OPERATION

 private:
  template <class Operation>
  void run_moved(Operation operation) {
    Mirror mirror(*device_, *stream_);
    MovedOperands collected(mirror), moved(mirror);
    Operation(operation).operands(collected);
    mirror.upload();
    operation.operands(moved);
    inner_->run(operation);
    mirror.download();
    if (noted_) mirror.note_outputs(Operation::kName, *noted_);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> inner_;
  Outputs* noted_;
};

}  // namespace

std::unique_ptr<Ops> make_mirrored_ops(std::shared_ptr<Device> device,
                                       std::unique_ptr<Stream> stream, std::unique_ptr<Ops> inner,
                                       Outputs* noted) {
  return std::make_unique<MirroredOps>(std::move(device), std::move(stream), std::move(inner),
                                       noted);
}

}  // namespace dlrm
