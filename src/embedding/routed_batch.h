#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/device/upload.h"
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
/// global batch, and those of replicated tables for the local samples. Lists are filled by the host
/// and read by the device; pointers that others see are the device's.
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
  /// Takes what stays on this rank: lengths of bags, and the bags of replicated tables. Makes room
  /// for `lists` lists of returned bags.
  void take_local(const EmbeddingLayout& layout, const LocalBags& bags, size_t lists = 0);
  /// Takes lengths and all bags, which are those of the global batch: one rank owns all rows uncut.
  void take_all(const EmbeddingLayout& layout, const LocalBags& bags);
  /// Makes list `list` that of group `number`, which is of feature `feature`: the samples whose
  /// lengths [b] are not 0.
  void list_returned(size_t number, size_t list, size_t feature, const int32_t* lengths,
                     bool alone);

  /// Makes room for this owner's groups of `counts` ids each; returns where each group's ids and
  /// offsets are to be written in `rooms`, and the number of ids. Pieces are the caller's to set.
  struct Room {
    int64_t* ids;
    int64_t* offsets;
  };
  size_t make_room(View<const int64_t> counts, size_t pieces_in_each, std::vector<Room>& rooms);
  /// Piece `piece` is `bags` bags at `offsets`, which count from `ids`: both filled, in a room.
  void set_piece(size_t piece, const int64_t* ids, const int64_t* offsets, int64_t bags) {
    pieces[piece] = group_of(owned_, ids, offsets, bags);
  }

  /// Appends the sizes and places of all lists: batches that give the same are the same to a
  /// device.
  void append_key(std::vector<uint64_t>& key) const;

  /// Queue the copies of what was taken, and of the rooms.
  void send_local(Stream& copies) { local_lists_.send(copies); }
  void send_owned(Stream& copies) { owned_.send(copies); }
  /// What `stream` is given next finds all lists; after release() and that, they may be
  /// overwritten.
  void arrive(Stream& stream);
  void release(Stream& stream);

 private:
  static IdGroup group_of(const Upload& lists, const int64_t* ids, const int64_t* offsets,
                          int64_t bags);
  void begin_local(const EmbeddingLayout& layout, const LocalBags& bags, size_t further_bytes);

  Upload local_lists_, owned_;
  std::vector<const float*> host_scales_;   ///< as scales, on the host's side
  std::vector<int32_t*> returned_samples_;  ///< by list
  std::vector<float*> returned_scales_;
};

}  // namespace dlrm
