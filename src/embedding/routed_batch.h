#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/ops/types.h"

#include "layout.h"

namespace dlrm {

/// The local samples whose bags are not empty on one slice: those whose vectors its owner returns.
struct ReturnedBags {
  int64_t count = 0;
  const int32_t* samples = nullptr;  ///< ascending, from 0 for the first local one
  const float* scale = nullptr;      ///< 1/length of each one's whole bag, or none (sum)
  /// Every local bag has exactly one id: no other slice returns anything for these.
  bool alone = false;
};

/// The ids of one global batch where they are needed: those of the local slices for the whole
/// global batch, and those of replicated tables for the local samples.
struct RoutedBatch {
  int64_t global_size = 0;
  Range local;
  /// This owner's groups, group-major: one of all samples each, or, where the layout says
  /// by_source, one for each rank's samples.
  std::vector<IdGroup> pieces;
  size_t pieces_a_group = 1;
  std::vector<ReturnedBags> returned;  ///< by number of the group; empty where all are returned
  std::vector<IdGroup> replicated;     ///< by feature (empty for sharded ones); bags = local.size()
  std::vector<const float*> scales;    ///< by feature: 1/length of each local bag, or none (sum)

  explicit RoutedBatch(Device& device);
  /// Sets global_size, local and scales.
  void take_lengths(const EmbeddingLayout& layout, const LocalBags& bags);
  /// Copies the bags of replicated tables.
  void take_replicated(const EmbeddingLayout& layout, const LocalBags& bags);
  /// Copies all bags, which are those of the global batch: one rank owns all rows uncut.
  void take_all(const EmbeddingLayout& layout, const LocalBags& bags);

  /// Makes room for this owner's groups of `counts` ids each; returns where each group's ids and
  /// offsets are to be written in `rooms`, and the number of ids. Pieces are the caller's to set.
  struct Room {
    int64_t* ids;
    int64_t* offsets;
  };
  size_t make_room(View<const int64_t> counts, size_t pieces_in_each, std::vector<Room>& rooms);

  /// Makes room for `lists` lists of returned bags among `groups` groups.
  void make_returned_room(int groups, size_t lists);
  /// Makes list `list` that of group `number`: the samples whose lengths [b] are not 0.
  void list_returned(size_t number, size_t list, const int32_t* lengths, const float* scale,
                     bool alone);

 private:
  Array<int64_t> ids_, offsets_, local_ids_, local_offsets_;
  Array<float> scale_values_, returned_scales_;
  Array<int32_t> returned_samples_;
};

}  // namespace dlrm
