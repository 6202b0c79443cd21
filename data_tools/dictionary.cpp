#include "dictionary.h"

#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr size_t kFirstSlots = 1024;
constexpr size_t kPrefetchAhead = 16;  // far enough to cover a cache miss or two

}  // namespace

Dictionary::Dictionary(int32_t first_id)
    : first_id_(first_id),
      next_id_(first_id),
      mask_(kFirstSlots - 1),
      slots_(kFirstSlots, Slot{0, -1}) {}

int32_t Dictionary::find(CategoryValue value) const {
  if (value == kMissingValue) return missing_id_;
  const auto key = static_cast<uint32_t>(value);
  for (size_t at = place(value);; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.id < 0 || slot.key == key) return slot.id;
  }
}

int32_t Dictionary::insert(CategoryValue value) {
  if (value == kMissingValue) {
    if (missing_id_ < 0) missing_id_ = new_id();
    return missing_id_;
  }
  const auto key = static_cast<uint32_t>(value);
  for (size_t at = place(value);; at = (at + 1) & mask_) {
    Slot& slot = slots_[at];
    if (slot.id >= 0 && slot.key != key) continue;
    if (slot.id >= 0) return slot.id;
    const int32_t id = new_id();
    slot = {key, id};
    if (++used_ * 8 > slots_.size() * 5) grow();
    return id;
  }
}

void Dictionary::insert_all(View<const CategoryValue> values, View<int32_t> ids) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i + kPrefetchAhead < values.size()) prefetch(values[i + kPrefetchAhead]);
    ids[i] = insert(values[i]);
  }
}

void Dictionary::find_all(View<const CategoryValue> values, View<int32_t> ids,
                          int32_t unknown) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i + kPrefetchAhead < values.size()) prefetch(values[i + kPrefetchAhead]);
    const int32_t id = find(values[i]);
    ids[i] = id < 0 ? unknown : id;
  }
}

std::vector<CategoryValue> Dictionary::values() const {
  std::vector<CategoryValue> result(static_cast<size_t>(size()));
  for (const Slot& slot : slots_) {
    if (slot.id >= 0) result[static_cast<size_t>(slot.id - first_id_)] = slot.key;
  }
  if (missing_id_ >= 0) result[static_cast<size_t>(missing_id_ - first_id_)] = kMissingValue;
  return result;
}

int32_t Dictionary::new_id() {
  if (next_id_ == std::numeric_limits<int32_t>::max()) {
    throw usage_error("more than {} distinct values of one feature; --max-rows bounds them",
                      next_id_ - first_id_);
  }
  return static_cast<int32_t>(next_id_++);
}

void Dictionary::grow() {
  std::vector<Slot> old(slots_.size() * 2, Slot{0, -1});
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t at = place(slot.key);
    while (slots_[at].id >= 0) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

}  // namespace dlrm
