#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/embedding/sharded_embeddings.h"

#include "bag_message.h"
#include "embedding/tables/layout.h"

namespace dlrm {

/// The result of one pass over the offsets of a feature's local bags.
struct BagScan {
  bool ordered = false;  ///< offsets are valid; if false, the other fields are not
  int32_t length = 0;    ///< ids in every bag, or -1 if bags differ
  int64_t first = 0;     ///< position of the feature's first id among all ids
  int64_t count = 0;     ///< number of the feature's ids
  int64_t capacity = 0;  ///< room for its ids on a device; scan_offsets() sets it to count
  int64_t chunks = 0;    ///< number of chunks of ids, up to and including this feature
};

/// The header of a feature's bags, if all of their ids are sent.
GroupHeader whole_bags(const BagScan& scan);

/// The offsets of a feature's local bags: [b + 1].
inline const int64_t* feature_offsets(const LocalBags& bags, size_t feature) {
  return bags.offsets.data() + static_cast<int64_t>(feature) * bags.local.size();
}

/// Scans every feature's offsets. Throws usage_error if an offset is less than the previous one or
/// outside [0, number of ids]. The first offset may be above 0.
void scan_offsets(const EmbeddingLayout& layout, const LocalBags& bags, int threads,
                  std::vector<BagScan>& scans);

/// Where check_and_copy_ids() copies a feature's ids.
struct IdDestination {
  void* ids = nullptr;   ///< null: ids are checked and not copied
  int64_t id_bytes = 8;  ///< 8 for int64, 4 for int32
  bool done = false;     ///< the feature's ids were checked and copied before
};

/// Checks all local ids and, in the same pass, copies those of feature f to `destinations[f]`. No
/// other code on the host checks ids against the tables' rows. Threads share the ids in chunks, so
/// that one long feature does not delay the others. Throws usage_error for the first id outside [0,
/// rows), naming sample, feature, id and range.
void check_and_copy_ids(const EmbeddingLayout& layout, const LocalBags& bags,
                        const std::vector<BagScan>& scans, int threads,
                        View<const IdDestination> destinations);

}  // namespace dlrm
