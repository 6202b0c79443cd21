#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "dlrm/ops/ops.h"

#include "embedding/routing/id_staging.h"

namespace dlrm {

/// The ids of a global batch that fall into this rank's slices. Pointers are the device's.
class OwnerSide {
 public:
  explicit OwnerSide(Device& device)
      : staging_(device, "routed ids"), other_blocks_(device, 0, "routed ids") {}

  /// Removes the previous batch.
  void begin();

  /// A group's ids and offsets on the host: int32 if narrow(), otherwise int64.
  struct GroupBuffer {
    void* ids;
    void* offsets;
    int32_t* samples;          ///< of a piece's bags; null if not requested
    float* weights = nullptr;  ///< of ids, likewise
  };
  struct GroupSize {
    int64_t ids = 0;
    int64_t capacity = 0;  ///< room for ids
    int64_t bags = 0;
    int64_t pieces = 1;
    bool with_samples = false;  ///< a device reads the sample of each bag
    bool weighted = false;      ///< ids have weights
  };
  /// Reserves one buffer for each group. If `narrow`, ids fit int32. Returns the room for ids. The
  /// caller sets the pieces.
  size_t reserve_groups(View<const GroupSize> groups, bool narrow,
                        std::vector<GroupBuffer>& buffers);
  bool narrow() const { return narrow_ != nullptr; }
  /// The ids of each group on the host, where a cached tier replaces rows by slots.
  struct HostIds {
    void* ids = nullptr;
    int64_t count = 0;
    bool narrow = false;  ///< int32 instead of int64
  };
  std::vector<HostIds> host_ids;
  /// Sets piece `piece` to `bags` bags of rank `source`, whose ids and offsets are in a group's
  /// buffer. Offsets are relative to `ids`. `capacity`: at least the number of ids.
  template <class T>
  void set_piece(size_t piece, int source, const T* ids, const T* offsets, int64_t bags,
                 int64_t capacity, const int32_t* bag_samples = nullptr,
                 const float* weights = nullptr) {
    pieces[piece] = {ids_of(ids), ids_of(offsets), bags, capacity, staging_.on_device(weights)};
    sources[piece] = source;
    samples[piece] = staging_.on_device(bag_samples);
  }
  /// Call it if `pieces` has one piece for each group, with the samples of all ranks.
  void set_whole_groups();

  /// For each group, the number of a list of orders of its rows that the device reads, or -1.
  /// Groups of one slice have the same number.
  void order_groups(std::vector<int> list_of_group) { order_of_group_ = std::move(list_of_group); }
  /// The orders of the rows of a slice, see PlacedOrder. reserve_groups() makes them.
  struct RowOrders {
    View<int32_t> by_row, by_slot;  ///< on the host
    const int32_t *device_by_row, *device_by_slot;
    std::vector<int64_t> first_ids;  ///< the router fills it
  };
  std::vector<RowOrders> orders;
  /// Returns host memory for the rank's own block of IdBlocks.
  char* reserve_block(size_t bytes);
  /// Takes that block from memory that was filled before, which gets the memory of an earlier one.
  void adopt_block(HostArray<char>& filled, size_t bytes) {
    own_block_ = filled.data();
    staging_.adopt(filled, bytes);
  }
  /// Returns memory of the device for the blocks of the other ranks.
  char* reserve_blocks(size_t bytes);
  /// The blocks on the device.
  const char* own_block() const { return staging_.on_device(own_block_); }
  const char* other_blocks() const { return other_blocks_.data(); }
  /// Reserves memory of the device for groups that keep at most `counts` ids of `bags` bags. The
  /// caller sets the filters' parts.
  void reserve_filtered(View<const int64_t> counts, int64_t bags);

  IdStaging& staging() { return staging_; }
  const IdStaging& staging() const { return staging_; }

  /// Group-major. Each group has one piece of all samples. If the layout is by_source, it has one
  /// piece for each rank's samples, in the order of ranks. A group that skips empty bags has none
  /// for ranks whose bags are all empty.
  std::vector<IdGroup> pieces;
  std::vector<size_t> first_piece;  ///< [groups + 1]
  std::vector<int> sources;         ///< the rank of each piece's samples, or kEveryRank
  static constexpr int kEveryRank = -1;
  View<const IdGroup> pieces_of(size_t first_group, size_t groups) const {
    const size_t first = first_piece[first_group];
    return {pieces.data() + first, first_piece[first_group + groups] - first};
  }
  /// For each piece, [bags] the sample of each bag, relative to the piece's first sample. Null if
  /// bag i belongs to sample i.
  std::vector<const int32_t*> samples;
  /// If a device filters: the ids of all ranks as received, by feature and then rank, and the
  /// filter of each group. Otherwise empty.
  std::vector<IdPart> parts;
  std::vector<int64_t> part_sizes;  ///< ids of each part
  std::vector<IdFilter> filters;

 private:
  const int64_t* ids_of(const int64_t* staged) const { return staging_.on_device(staged); }
  const int64_t* ids_of(const int32_t* staged) const { return unpacked_ + (staged - narrow_); }

  IdStaging staging_;
  const char* own_block_ = nullptr;  ///< on the host
  Array<char> other_blocks_;
  std::vector<int> order_of_group_;
  const int32_t* narrow_ = nullptr;    ///< the groups' staged int32, if narrow()
  const int64_t* unpacked_ = nullptr;  ///< the unpacked integers of narrow_
};

}  // namespace dlrm
