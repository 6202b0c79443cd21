#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/embedding/sharded_embeddings.h"

#include "layout.h"

namespace dlrm {

/// What one pass over a feature's local bags finds.
struct BagScan {
  bool ordered = false;  ///< offsets rise within the ids; else nothing else is known
  int32_t length = 0;    ///< ids in every bag, or -1 where bags differ
  int64_t count = 0;     ///< ids in all
  int64_t bad = -1;      ///< position of the first id outside its table, from the feature's first
};

/// Scans every feature's bags and throws usage_error at the first id outside [0, rows), naming
/// sample, feature, value and range.
void scan_bags(const EmbeddingLayout& layout, const LocalBags& bags, int threads,
               std::vector<BagScan>& scans);

}  // namespace dlrm
