#include <cmath>

#include "dlrm/core/random.h"
#include "dlrm/embedding/row_store.h"
#include "dlrm/plan/plan.h"

namespace dlrm {
namespace {

class ResidentRows final : public RowStore {
 public:
  ResidentRows(Device& device, int64_t rows, int64_t width, const RowState& state)
      : stride_(row_stride(width, DType::kFloat32)),
        weights_(device, static_cast<size_t>(rows * stride_), "embedding rows") {
    table_.weights = weights_.data();
    table_.rows = rows;
    table_.width = width;
    table_.stride = stride_;
    if (state.arrays == 0) return;
    table_.state_stride = state.per_row ? 1 : stride_;
    const auto elements = static_cast<size_t>(rows * table_.state_stride);
    state1_ = Array<float>(device, elements, "embedding optimizer state");
    table_.state1 = state1_.data();
    if (state.arrays == 1) return;
    state2_ = Array<float>(device, elements, "embedding optimizer state");
    table_.state2 = state2_.data();
  }

  RowTable table() const override { return table_; }
  void prepare(const RoutedBatch&) override {}
  void release(int64_t) override {}

 private:
  int64_t stride_;
  Array<float> weights_, state1_, state2_;
  RowTable table_;
};

}  // namespace

RowState row_state(const OptimizerConfig& optimizer) {
  const auto initial = static_cast<float>(optimizer.initial_accumulator);
  switch (optimizer.type) {
    case OptimizerType::kSgd:
      return {};
    case OptimizerType::kAdagrad:
      return {1, false, initial};
    case OptimizerType::kRowwiseAdagrad:
      return {1, true, initial};
    case OptimizerType::kAdam:
      return {2, false, 0};
  }
  return {};
}

std::unique_ptr<RowStore> make_resident_rows(Device& device, int64_t rows, int64_t width,
                                             const RowState& state) {
  return std::make_unique<ResidentRows>(device, rows, width, state);
}

void initialise_rows(Ops& ops, Device& device, const RowTable& rows, const RowState& state,
                     uint64_t seed, const TableConfig& table, int64_t first_row,
                     int64_t first_column) {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(table.rows)));
  ops.fill_uniform(stream_key(seed, "/tables/" + table.name), first_row, first_column, bound, rows);
  const int64_t bytes = rows.rows * rows.state_stride * static_cast<int64_t>(sizeof(float));
  if (state.arrays > 0) ops.fill_zero(rows.state1, bytes);
  if (state.arrays > 1) ops.fill_zero(rows.state2, bytes);
  if (state.arrays == 0 || state.initial == 0) return;
  const int64_t columns = state.per_row ? 1 : rows.width;
  Array<float> row(device, static_cast<size_t>(columns), "initial optimizer state");
  for (float& value : row.view()) value = state.initial;
  BlockCopy fill;  // a source stride of 0 repeats one row
  fill.src = row.data();
  fill.dst = rows.state1;
  fill.dst_stride = rows.state_stride;
  fill.rows = rows.rows;
  fill.cols = columns;
  ops.copy_blocks({&fill, 1});
}

}  // namespace dlrm
