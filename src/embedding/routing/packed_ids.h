#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/embedding/sharded_embeddings.h"

#include "bag_scan.h"

namespace dlrm {

/// What ShardedEmbeddings::pack() makes of a batch's ids: a block of IdBlocks and its words, and
/// the ids that stay on this rank.
struct PackedIds {
  explicit PackedIds(Device& device) : memory(device, 0, "routed ids") {}

  /// True if these are the ids of `bags`.
  bool holds(const LocalBags& bags) const {
    return ready && ids == bags.ids.data() && global_size == bags.global_size;
  }

  /// Pinned. Only route() reserves it, because that may wait for the device.
  HostArray<char> memory;
  bool ready = false;
  const int64_t* ids = nullptr;
  int64_t global_size = 0;
  std::vector<BagScan> scans;
  std::vector<int64_t> words;
  std::vector<int32_t> kept;  ///< the ids of replicated tables, by feature
};

}  // namespace dlrm
