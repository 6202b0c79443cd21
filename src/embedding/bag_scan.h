#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/embedding/sharded_embeddings.h"

#include "layout.h"

namespace dlrm {

/// What one pass over the offsets of a feature's local bags finds.
struct BagScan {
  bool ordered = false;  ///< they rise within the ids; else nothing else is known
  int32_t length = 0;    ///< ids in every bag, or -1 where bags differ
  int64_t first = 0;     ///< the feature's first id among all
  int64_t count = 0;     ///< ids in all
  int64_t chunks = 0;    ///< chunks of ids up to this feature's last
};

/// Scans every feature's offsets. Throws usage_error where they do not rise within the ids.
void scan_offsets(const EmbeddingLayout& layout, const LocalBags& bags, int threads,
                  std::vector<BagScan>& scans);

/// Looks through all ids and, in the same pass, copies those of feature f to `to[f]` as int32 or
/// int64 (id_bytes), unless that is null or `to` empty. Threads share the ids in chunks, however
/// long a feature's lists are. Throws usage_error at the first id outside [0, rows), naming sample,
/// feature, value and range.
void check_and_copy_ids(const EmbeddingLayout& layout, const LocalBags& bags,
                        const std::vector<BagScan>& scans, int threads, View<char* const> to,
                        int64_t id_bytes);

}  // namespace dlrm
