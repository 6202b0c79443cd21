#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/embedding/sharded_embeddings.h"

#include "layout.h"

namespace dlrm {

/// What one pass over the offsets of a feature's local bags finds.
struct BagScan {
  bool ordered = false;  ///< offsets rise and lie within the ids; if false, nothing else is set
  int32_t length = 0;    ///< ids in every bag, or -1 if bags differ
  int64_t first = 0;     ///< the feature's first id among all
  int64_t count = 0;     ///< ids in all
  int64_t chunks = 0;    ///< chunks of ids up to this feature's last
};

/// Scans every feature's offsets. Throws usage_error if they do not rise or leave the ids.
void scan_offsets(const EmbeddingLayout& layout, const LocalBags& bags, int threads,
                  std::vector<BagScan>& scans);

/// Where a feature's ids are copied to.
struct IdDestination {
  void* ids = nullptr;   ///< absent: ids are checked alone
  int64_t id_bytes = 8;  ///< 8 for int64, 4 for int32
};

/// Checks all local ids and, in the same pass, copies those of feature f to `destinations[f]`. This
/// is the host's only check of ids. Threads share the ids in chunks, so that one long feature does
/// not delay the others. Throws usage_error for the first id outside [0, rows), naming sample,
/// feature, id and range.
void check_and_copy_ids(const EmbeddingLayout& layout, const LocalBags& bags,
                        const std::vector<BagScan>& scans, int threads,
                        View<const IdDestination> destinations);

}  // namespace dlrm
