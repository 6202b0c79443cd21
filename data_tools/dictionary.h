#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/data/category_value.h"

namespace dlrm {

/// Assigns ids to one feature's values in the order of first appearance, from `first_id` on. Takes
/// 8 bytes per slot. At most 5/8 of the slots are in use.
class Dictionary {
 public:
  explicit Dictionary(int32_t first_id);

  int32_t first_id() const { return first_id_; }
  /// Distinct values, including a missing one.
  int64_t size() const { return next_id_ - first_id_; }
  /// The value's id, or -1 if unknown.
  int32_t find(CategoryValue value) const;
  /// Returns the value's id. An unknown value gets the next id. Throws usage_error if there are no
  /// more 32-bit ids.
  int32_t insert(CategoryValue value);

  /// ids[i] = insert(values[i]), in order.
  void insert_all(View<const CategoryValue> values, View<int32_t> ids);
  /// ids[i] = find(values[i]), or `unknown` for values without an id.
  void find_all(View<const CategoryValue> values, View<int32_t> ids, int32_t unknown) const;

  /// All values, in the order of their ids.
  std::vector<CategoryValue> values() const;

 private:
  struct Slot {
    uint32_t key;
    int32_t id;  // -1: the slot is free
  };

  size_t place(CategoryValue value) const { return mix64(value) & mask_; }
  void prefetch(CategoryValue value) const { __builtin_prefetch(&slots_[place(value)]); }
  int32_t new_id();
  void grow();

  int32_t first_id_;
  int64_t next_id_;
  int32_t missing_id_ = -1;
  size_t used_ = 0;
  size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace dlrm
