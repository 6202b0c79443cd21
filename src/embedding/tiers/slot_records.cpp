#include "slot_records.h"

#include <algorithm>
#include <cstring>

#include "dlrm/core/dispatch.h"
#include "dlrm/core/random.h"

namespace dlrm {

void SlotRecords::Field::read(const std::byte* from, float* out) const {
  dispatch_compute(type, [&]<class T>() {
    for (int64_t c = 0; c < columns; ++c) {
      T value;
      std::memcpy(&value, from + c * static_cast<int64_t>(sizeof(T)), sizeof(T));
      out[c] = static_cast<float>(value);
    }
  });
}

void SlotRecords::Field::write(const float* in, std::byte* to) const {
  dispatch_compute(type, [&]<class T>() {
    for (int64_t c = 0; c < columns; ++c) {
      const T value(in[c]);
      std::memcpy(to + c * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  });
}

void SlotRecords::add(const RowShape& shape, const RowTable& slots) {
  shapes_.push_back(shape);
  first_fields_.push_back(fields_.size());
  add(slots.weights, slots.stride, shape.table.width, shape.table.type);
  float* const states[] = {slots.state1, slots.state2};
  for (int i = 0; i < traits_of(shape.optimizer.type).state_count(); ++i) {
    add(states[i], slots.state_stride, shape.columns_of(RowArray::kState1), DType::kFloat32);
  }
}

void SlotRecords::add(void* slots, int64_t stride, int64_t columns, DType type) {
  Field field;
  field.slots = static_cast<std::byte*>(slots);
  field.stride = stride * static_cast<int64_t>(size_of(type));
  field.at = bytes_;
  field.columns = columns;
  field.type = type;
  fields_.push_back(field);
  bytes_ += field.bytes();
}

void SlotRecords::gather(int64_t slot, std::byte* record) const {
  for (const Field& field : fields_) {
    std::memcpy(record + field.at, field.slot(slot), static_cast<size_t>(field.bytes()));
  }
}

void SlotRecords::scatter(const std::byte* record, int64_t slot) const {
  for (const Field& field : fields_) {
    std::memcpy(field.slot(slot), record + field.at, static_cast<size_t>(field.bytes()));
  }
}

void SlotRecords::initial(int64_t row, std::vector<float>& values, std::byte* record) const {
  for (size_t s = 0; s < shapes_.size(); ++s) {
    const RowShape& shape = shapes_[s];
    values.resize(static_cast<size_t>(shape.table.width));
    initial_row(shape.init, shape.initial_key, static_cast<uint64_t>(shape.table.first_row + row),
                shape.table.first_column, shape.table.width, values.data());
    const Field& weights = field(s, RowArray::kWeights);
    weights.write(values.data(), record + weights.at);
    const OptimizerTraits& traits = traits_of(shape.optimizer.type);
    for (int i = 0; i < traits.state_count(); ++i) {
      const Field& state = field(s, i == 0 ? RowArray::kState1 : RowArray::kState2);
      std::fill(values.begin(), values.end(),
                static_cast<float>(traits.states[i].initial(shape.optimizer)));
      state.write(values.data(), record + state.at);
    }
  }
}

}  // namespace dlrm
