#include <algorithm>
#include <vector>

#include "dlrm/core/dispatch.h"
#include "dlrm/core/random.h"
#include "dlrm/embedding/row_store.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

RowShape::RowShape(const TableConfig& of, const OptimizerConfig& rule, uint64_t seed, Range rows,
                   Range columns)
    : optimizer(rule), initial_key(stream_key(seed, of.path())), init(of.row_init()) {
  table.type = of.dtype;
  table.rows = rows.size();
  table.width = columns.size();
  table.rounding_key = stream_key(seed, of.path() + "/rounding");
  table.first_row = rows.begin;
  table.first_column = columns.begin;
  if (rule.type != OptimizerRule::kFtrl) {
    table.l2 = static_cast<float>(of.l2 < 0 ? rule.l2 : of.l2);
  }
  table.clip_norm = static_cast<float>(rule.clip_norm);
}

int64_t RowShape::columns_of(RowArray array) const {
  return array != RowArray::kWeights && traits_of(optimizer.type).rowwise() ? 1 : table.width;
}

RowTools::RowTools(Context& of_rank, Ops& main_ops)
    : context(of_rank),
      ops(main_ops),
      transfer(of_rank.device, of_rank.stream),
      initial_row(of_rank.device, 0, "initial optimizer state") {}

namespace {

class ResidentRows final : public RowStore {
 public:
  ResidentRows(RowTools& tools, MemoryKind kind, const RowShape& shape)
      : tools_(tools), shape_(shape), table_(shape.table) {
    table_.stride = table_stride(table_.width, table_.type);
    table_.on_host = kind == MemoryKind::kHost;
    weights_ = values(kind, table_.stride, table_.type, "embedding rows");
    table_.weights = weights_.data();
    const OptimizerTraits& traits = traits_of(shape.optimizer.type);
    if (traits.state_count() == 0) return;
    table_.state_stride = traits.rowwise() ? 1 : table_stride(table_.width, DType::kFloat32);
    for (int i = 0; i < traits.state_count(); ++i) {
      state_[i] = values(kind, table_.state_stride, DType::kFloat32, "embedding optimizer state");
    }
    table_.state1 = static_cast<float*>(state_[0].data());
    table_.state2 = static_cast<float*>(state_[1].data());
  }

  RowTable table() const override { return table_; }

  void initialise() override {
    tools_.ops.fill_rows(shape_.initial_key, table_.first_row, table_.first_column, shape_.init,
                         table_);
    const OptimizerTraits& traits = traits_of(shape_.optimizer.type);
    for (int i = 0; i < traits.state_count(); ++i) {
      fill_state(i == 0 ? table_.state1 : table_.state2,
                 static_cast<float>(traits.states[i].initial(shape_.optimizer)));
    }
  }

  void read(RowArray array, int64_t first, int64_t count, float* out) override {
    if (array != RowArray::kWeights) return read_as(state(array), first, count, array, out);
    dispatch_compute(table_.type, [&]<class T>() {
      read_as(static_cast<const T*>(table_.weights), first, count, array, out);
    });
  }
  void write(RowArray array, int64_t first, int64_t count, const float* in) override {
    if (tools_.context.device.host_visible_memory()) return copy_in(array, first, count, in);
    if (array != RowArray::kWeights) return write_as(state(array), first, count, array, in);
    dispatch_compute(table_.type, [&]<class T>() {
      write_as(static_cast<T*>(table_.weights), first, count, array, in);
    });
  }

 private:
  Buffer values(MemoryKind kind, int64_t stride, DType type, const char* what) const {
    return {tools_.context.device, static_cast<size_t>(table_.rows * stride) * size_of(type), what,
            kind};
  }
  float* state(RowArray array) const {
    return array == RowArray::kState1 ? table_.state1 : table_.state2;
  }
  int64_t stride_of(RowArray array) const {
    return array == RowArray::kWeights ? table_.stride : table_.state_stride;
  }

  /// Sets the state of all rows to `value`.
  void fill_state(float* state, float value) {
    tools_.ops.fill_zero(state,
                         table_.rows * table_.state_stride * static_cast<int64_t>(sizeof(float)));
    if (value == 0) return;
    const int64_t columns = shape_.columns_of(RowArray::kState1);
    const std::vector<float> row(static_cast<size_t>(columns), value);
    tools_.initial_row.reserve(row.size());
    tools_.transfer.to_device(tools_.initial_row.data(), row.data(), row.size() * sizeof(float));
    BlockCopy fill;  // a source stride of 0 repeats one row
    fill.src = tools_.initial_row.data();
    fill.dst = state;
    fill.dst_stride = table_.state_stride;
    fill.rows = table_.rows;
    fill.cols = columns;
    tools_.ops.copy_blocks({&fill, 1});
  }

  /// With all threads, so that the memory of a loaded table is near them, and not all in one
  /// socket.
  void copy_in(RowArray array, int64_t first, int64_t count, const float* in) {
    const bool weights = array == RowArray::kWeights;
    BlockCopy copy;
    copy.src = in;
    copy.dst_type = weights ? table_.type : DType::kFloat32;
    copy.dst_stride = stride_of(array);
    copy.dst = static_cast<char*>(weights ? table_.weights : static_cast<void*>(state(array))) +
               first * copy.dst_stride * static_cast<int64_t>(size_of(copy.dst_type));
    copy.rows = count;
    copy.cols = copy.src_stride = shape_.columns_of(array);
    tools_.ops.copy_blocks({&copy, 1});
  }

  template <class T>
  void read_as(const T* data, int64_t first, int64_t count, RowArray array, float* out) {
    const int64_t columns = shape_.columns_of(array), stride = stride_of(array);
    const T* from = data + first * stride;
    if constexpr (std::is_same_v<T, float>) {
      tools_.transfer.read_rows(from, stride, count, columns, out);
    } else {
      std::vector<T> stored(static_cast<size_t>(count * columns));
      tools_.transfer.read_rows(from, stride, count, columns, stored.data());
      std::transform(stored.begin(), stored.end(), out, [](T v) { return static_cast<float>(v); });
    }
  }
  template <class T>
  void write_as(T* data, int64_t first, int64_t count, RowArray array, const float* in) {
    const int64_t columns = shape_.columns_of(array), stride = stride_of(array);
    T* to = data + first * stride;
    if constexpr (std::is_same_v<T, float>) {
      tools_.transfer.write_rows(to, stride, count, columns, in);
    } else {
      std::vector<T> stored;
      stored.reserve(static_cast<size_t>(count * columns));
      for (int64_t i = 0; i < count * columns; ++i) stored.emplace_back(in[i]);
      tools_.transfer.write_rows(to, stride, count, columns, stored.data());
    }
  }

  RowTools& tools_;
  const RowShape shape_;
  Buffer weights_, state_[2];
  RowTable table_;
};

}  // namespace

std::unique_ptr<RowStore> make_resident_rows(RowTools& tools, MemoryKind kind,
                                             const RowShape& shape) {
  return std::make_unique<ResidentRows>(tools, kind, shape);
}

}  // namespace dlrm
