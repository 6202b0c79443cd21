#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/ops/ops.h"

#include "bag_scan.h"
#include "batch_lists.h"
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
/// and read by the device; pointers that others see are the device's. There, ids and offsets are
/// what unpack() makes of what arrived.
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
  /// By piece, on a device: the sample of each bag, counted from the piece's first, or none where
  /// that is the bag's number.
  std::vector<const int32_t*> samples;
  /// On a device: ids of all ranks as they arrived, by feature and then rank, and what each group
  /// keeps of them. Empty where pieces came as they are.
  std::vector<IdPart> parts;
  std::vector<int64_t> part_sizes;  ///< ids of each
  std::vector<IdFilter> filters;

  explicit RoutedBatch(Device& device);
  /// Takes what stays on this rank: lengths of bags, and the bags of replicated tables. Makes room
  /// for `lists` lists of returned bags. All ids have been looked through.
  void take_local(const EmbeddingLayout& layout, const LocalBags& bags,
                  const std::vector<BagScan>& scans, size_t lists = 0);
  /// Takes lengths and all bags, which are those of the global batch, looking through the ids: one
  /// rank owns all rows uncut.
  void take_all(const EmbeddingLayout& layout, const LocalBags& bags,
                const std::vector<BagScan>& scans, int threads);
  /// Makes list `list` that of group `number`, which is of feature `feature`: the samples whose
  /// lengths [b] are not 0.
  void list_returned(size_t number, size_t list, size_t feature, const int32_t* lengths,
                     bool alone);

  /// Whether lists are copied to a device, where operations go through them.
  bool on_device() const { return owned_.packs(); }

  /// Where a group's ids and offsets are to be written: int32 where rooms_are_narrow(), else int64.
  struct Room {
    void* ids;
    void* offsets;
    int32_t* samples;  ///< of a piece's bags, where asked for
  };
  /// Makes room for this owner's groups of `counts` ids each, with `narrow` ids that fit int32, and
  /// of the numbers of samples where `with_samples` says so of a group and a device reads them.
  /// Returns the number of ids. Pieces are the caller's to set.
  size_t make_room(View<const int64_t> counts, size_t pieces_in_each, bool narrow,
                   const std::vector<bool>& with_samples, std::vector<Room>& rooms);
  bool rooms_are_narrow() const { return narrow_rooms_ != nullptr; }
  /// Piece `piece` is `bags` bags at `offsets`, which count from `ids`: both filled, in a room.
  template <class T>
  void set_piece(size_t piece, const T* ids, const T* offsets, int64_t bags,
                 const int32_t* bag_samples = nullptr) {
    pieces[piece] = {place_of(ids), place_of(offsets), bags, int64_t{offsets[bags] - offsets[0]}};
    samples[piece] = owned_.on_device(bag_samples);
  }

  /// Makes room on the host for the messages of all ranks, which the device filters.
  char* make_message_room(size_t bytes);
  template <class T>
  T* on_device(T* in_message) const {
    return owned_.on_device(in_message);
  }
  /// Makes room for what groups of at most `counts` ids keep; filters' parts are the caller's.
  void make_filters(View<const int64_t> counts);

  /// Appends the sizes and places of all lists: batches that give the same are the same to a
  /// device.
  void append_key(std::vector<uint64_t>& key) const;

  /// Queue the copies of what was taken, and of the rooms or messages.
  void send_local(Stream& copies) { local_lists_.send(copies); }
  void send_owned(Stream& copies) { owned_.send(copies); }
  /// Before the first use of ids: make pieces and replicated bags of what arrived. filter() comes
  /// second, once `parts` have been looked through.
  void unpack(Ops& ops);
  void filter(Ops& ops);
  /// What `stream` is given next finds all lists; after release() and that, they may be
  /// overwritten.
  void arrive(Stream& stream);
  void release(Stream& stream);

 private:
  /// On the device.
  const int64_t* place_of(const int64_t* in_room) const { return owned_.on_device(in_room); }
  const int64_t* place_of(const int32_t* in_room) const {
    return unpacked_rooms_ + (in_room - narrow_rooms_);
  }
  void begin_local(const EmbeddingLayout& layout, const LocalBags& bags, size_t further_bytes,
                   size_t unpacked);
  void take_wide(const EmbeddingLayout& layout, const LocalBags& bags,
                 const std::vector<BagScan>& scans, int threads);
  void take_narrow(const EmbeddingLayout& layout, const LocalBags& bags,
                   const std::vector<BagScan>& scans, int threads);

  BatchLists local_lists_, owned_;
  const int32_t* narrow_rooms_ = nullptr;
  const int64_t* unpacked_rooms_ = nullptr;
  bool unpacked_ = false, filtered_ = false;
  std::vector<IdGroup> by_feature_;
  std::vector<char*> copies_;               ///< by feature: where its ids go
  std::vector<const float*> host_scales_;   ///< as scales, on the host's side
  std::vector<int32_t*> returned_samples_;  ///< by list
  std::vector<float*> returned_scales_;
};

}  // namespace dlrm
