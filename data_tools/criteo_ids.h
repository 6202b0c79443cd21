#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/core/view.h"

#include "dictionary.h"

namespace dlrm {

/// Turns one feature's values into ids.
class IdSource {
 public:
  virtual ~IdSource() = default;
  virtual void encode(View<const CategoryValue> values, View<int32_t> ids) = 0;
  /// All ids are less than this number.
  virtual int64_t rows() const = 0;
  /// The dictionary for the dictionary file, or null.
  virtual const Dictionary* dictionary() const { return nullptr; }
};

/// A new value gets the next id.
std::unique_ptr<IdSource> make_growing_ids(Dictionary dictionary);
/// A value not in the dictionary gets id 0.
std::unique_ptr<IdSource> make_known_ids(Dictionary dictionary);
/// hashed_id(value, rows).
std::unique_ptr<IdSource> make_hashed_ids(int64_t rows);

}  // namespace dlrm
