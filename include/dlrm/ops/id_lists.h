#pragma once
// Operations on lists of ids before a lookup. Their default implementations suit executions whose
// device memory the host can read.
#include <cstdint>

#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"

namespace dlrm {

/// The ids of one feature, to be checked before anything uses them.
struct IdCheck {
  void* ids = nullptr;               ///< int64, or int32 with `narrow`
  const int64_t* offsets = nullptr;  ///< [bags + 1] into ids; if null, bags lie one after another
  int64_t bags = 0;
  int64_t capacity = 0;              ///< upper bound of the number of ids; exact without offsets
  int64_t rows = 0;                  ///< valid ids lie in [0, rows)
  int64_t feature = 0;               ///< number of the feature, for the report
  int64_t first_sample = 0;          ///< bag b is of sample first_sample + b, or + samples[b]
  int64_t first_row = 0;             ///< added to the id in the report
  const int32_t* samples = nullptr;  ///< [bags], or null
  const int32_t* lengths = nullptr;  ///< without offsets: [bags] ids of each bag, or null
  int32_t length = 0;                ///< without offsets and lengths: ids of each bag
  bool narrow = false;
};

/// Replaces ids outside their table by 0, so that no lookup reads out of bounds. Reports the first
/// of them, by list, bag and position, unless flag[0] is set: flag[0] = 1 and
/// where = {feature, sample, id}. Otherwise flag and where are unchanged.
struct CheckIds {
  View<const IdCheck> lists;
  View<float> flag;     ///< [1]
  View<int64_t> where;  ///< [3]

  static constexpr const char* kName = "check_ids";
  template <class V>
  void operands(V& v) {
    v.inout("lists", lists), v.inout("flag", flag), v.inout("where", where);
  }
};

/// Integers that were copied to the device as int32.
struct PackedList {
  const int32_t* from = nullptr;  ///< [count]; if null, the multiples of `step` from 0 on
  int64_t* to = nullptr;          ///< [count]
  int64_t count = 0;
  int64_t step = 0;
};

/// For each list: to[i] = from[i], or i·step.
struct Unpack {
  View<const PackedList> lists;

  static constexpr const char* kName = "unpack";
  template <class V>
  void operands(V& v) {
    v.inout("lists", lists);
  }
};

/// One rank's bags of a feature, their ids one after another.
struct IdPart {
  const void* ids = nullptr;         ///< int64, or int32 with `narrow`
  const int32_t* lengths = nullptr;  ///< [bags] ids of each bag; if null, each has `length`
  int64_t bags = 0;
  int32_t length = 0;
  bool narrow = false;
};

/// Selects the ids of a feature that lie in a shard's rows [first_row, first_row + rows).
struct IdFilter {
  View<const IdPart> parts;  ///< rank by rank
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t* ids = nullptr;      ///< capacity: the ids of all parts
  int64_t* offsets = nullptr;  ///< [bags of all parts + 1]
};

/// For each filter: ids = the selected ids in their order, less first_row; offsets = where each bag
/// begins among them, starting with 0.
struct FilterIds {
  View<const IdFilter> filters;

  static constexpr const char* kName = "filter_ids";
  template <class V>
  void operands(V& v) {
    v.inout("filters", filters);
  }
};

#define DLRM_ID_LIST_SEQUENCES(X) X(CheckIds) X(Unpack) X(FilterIds)

}  // namespace dlrm
