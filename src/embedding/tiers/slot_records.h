#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlrm/embedding/row_store.h"

namespace dlrm {

/// The records of a slice: for each of its column shards a row's weights, then its optimizer state,
/// without padding. The slots of the fast tier hold the same arrays as RowTables.
class SlotRecords {
 public:
  /// Adds a shard. `slots` has its memory.
  void add(const RowShape& shape, const RowTable& slots);
  /// Slots in a device's memory have the number of each slot's row in `row_of`, if updates need it.
  void set_row_of(int64_t* row_of) { row_of_ = row_of; }
  int64_t* row_of() const { return row_of_; }

  int64_t bytes() const { return bytes_; }
  /// Copies a slot to a record. The host must see its memory.
  void gather(int64_t slot, std::byte* record) const;
  /// Copies a record to a slot.
  void scatter(const std::byte* record, int64_t slot) const;
  /// Writes the record of a row before training. `row` counts from the slice's first row. `values`
  /// is working memory.
  void initial(int64_t row, std::vector<float>& values, std::byte* record) const;

  /// An array of a shard. Elements are of `type`.
  struct Field {
    std::byte* slots = nullptr;
    int64_t stride = 0;  ///< bytes from slot to slot
    int64_t at = 0;      ///< its first byte in a record
    int64_t columns = 0;
    DType type = DType::kFloat32;

    int64_t bytes() const { return columns * static_cast<int64_t>(size_of(type)); }
    /// Converts `columns` values of a record or slot.
    void read(const std::byte* from, float* out) const;
    /// Rounds to nearest.
    void write(const float* in, std::byte* to) const;
    std::byte* slot(int64_t number) const { return slots + number * stride; }
  };
  const std::vector<Field>& fields() const { return fields_; }
  const Field& field(size_t shard, RowArray array) const {
    return fields_[first_fields_[shard] + static_cast<size_t>(array)];
  }

 private:
  /// Appends an array of `columns` elements in each row.
  void add(void* slots, int64_t stride, int64_t columns, DType type);

  std::vector<RowShape> shapes_;
  std::vector<size_t> first_fields_;  ///< by shard
  std::vector<Field> fields_;
  int64_t bytes_ = 0;
  int64_t* row_of_ = nullptr;
};

}  // namespace dlrm
