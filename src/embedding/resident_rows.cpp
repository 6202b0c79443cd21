#include <cmath>
#include <vector>

#include "dlrm/core/random.h"
#include "dlrm/device/transfer.h"
#include "dlrm/embedding/row_store.h"
#include "dlrm/plan/plan.h"

namespace dlrm {
namespace {

class ResidentRows final : public RowStore {
 public:
  ResidentRows(Device& device, MemoryKind kind, const RowTable& shape, OptimizerRule rule)
      : table_(shape) {
    table_.stride = row_stride(table_.width, table_.type);
    table_.on_host = kind == MemoryKind::kHost;
    weights_ = values(device, kind, table_.stride, table_.type, "embedding rows");
    table_.weights = weights_.data();
    const OptimizerTraits& traits = traits_of(rule);
    if (traits.state_count() == 0) return;
    table_.state_stride = traits.rowwise() ? 1 : row_stride(table_.width, DType::kFloat32);
    for (int i = 0; i < traits.state_count(); ++i) {
      state_[i] =
          values(device, kind, table_.state_stride, DType::kFloat32, "embedding optimizer state");
    }
    table_.state1 = static_cast<float*>(state_[0].data());
    table_.state2 = static_cast<float*>(state_[1].data());
  }

  RowTable table() const override { return table_; }
  void prepare(const RoutedBatch&) override {}
  void release(int64_t) override {}

 private:
  Buffer values(Device& device, MemoryKind kind, int64_t stride, DType type,
                const char* what) const {
    return {device, static_cast<size_t>(table_.rows * stride) * size_of(type), what, kind};
  }

  Buffer weights_, state_[2];
  RowTable table_;
};

}  // namespace

RowTable shape_of_rows(const TableConfig& table, uint64_t seed, Range rows, Range columns) {
  RowTable shape;
  shape.type = table.dtype;
  shape.rows = rows.size();
  shape.width = columns.size();
  shape.rounding_key = stream_key(seed, "/tables/" + table.name + "/rounding");
  shape.first_row = rows.begin;
  shape.first_column = columns.begin;
  return shape;
}

std::unique_ptr<RowStore> make_resident_rows(Device& device, MemoryKind kind, const RowTable& shape,
                                             OptimizerRule rule) {
  return std::make_unique<ResidentRows>(device, kind, shape, rule);
}

namespace {

/// Sets state[r, c] to `value` for all rows.
void fill_state(Context& context, Ops& ops, float* state, const RowTable& rows, int64_t columns,
                float value, Array<float>& initial_row) {
  ops.fill_zero(state, rows.rows * rows.state_stride * static_cast<int64_t>(sizeof(float)));
  if (value == 0) return;
  const std::vector<float> values(static_cast<size_t>(columns), value);
  initial_row.reserve(values.size());
  Transfer(context.device, context.stream)
      .to_device(initial_row.data(), values.data(), values.size() * sizeof(float));
  BlockCopy fill;  // a source stride of 0 repeats one row
  fill.src = initial_row.data();
  fill.dst = state;
  fill.dst_stride = rows.state_stride;
  fill.rows = rows.rows;
  fill.cols = columns;
  ops.copy_blocks({&fill, 1});
}

}  // namespace

void initialise_rows(Context& context, Ops& ops, const RowTable& rows,
                     const OptimizerConfig& optimizer, uint64_t seed, const TableConfig& table,
                     int64_t first_row, int64_t first_column, Array<float>& initial_row) {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(table.rows)));
  ops.fill_uniform(stream_key(seed, "/tables/" + table.name), first_row, first_column, bound, rows);
  const OptimizerTraits& traits = traits_of(optimizer.type);
  float* const states[] = {rows.state1, rows.state2};
  for (int i = 0; i < traits.state_count(); ++i) {
    fill_state(context, ops, states[i], rows, traits.rowwise() ? 1 : rows.width,
               static_cast<float>(traits.states[i].initial(optimizer)), initial_row);
  }
}

}  // namespace dlrm
