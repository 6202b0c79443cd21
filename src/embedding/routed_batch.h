#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/ops/types.h"

#include "layout.h"

namespace dlrm {

/// The ids of one global batch where they are needed: those of the local slices for the whole
/// global batch, and those of replicated tables for the local samples.
struct RoutedBatch {
  int64_t global_size = 0;
  Range local;
  std::vector<IdGroup> groups;       ///< of this owner's layout; bags = global_size
  std::vector<IdGroup> replicated;   ///< by feature (empty for sharded ones); bags = local.size()
  std::vector<const float*> scales;  ///< by feature: 1/length of each local bag, or none (sum)

  explicit RoutedBatch(Device& device);
  /// Sets global_size, local, replicated and scales from the local samples.
  void take_local(const EmbeddingLayout& layout, const LocalBags& bags);
  /// Makes room for this owner's groups of `counts` ids each and sets their views; returns where
  /// each group's ids and offsets are to be written in `rooms`, and the number of ids.
  struct Room {
    int64_t* ids;
    int64_t* offsets;
  };
  size_t make_room(View<const int64_t> counts, std::vector<Room>& rooms);

 private:
  Array<int64_t> ids_, offsets_, local_ids_, local_offsets_;
  Array<float> scale_values_;
};

}  // namespace dlrm
