#pragma once
#include <cstdint>
#include <vector>

#include "bag_message.h"
#include "layout.h"
#include "owner_side.h"

namespace dlrm {

/// Makes an owner's groups from the messages of all ranks, of which each has the ids of the owner's
/// rows. Work and memory depend on the groups that have ids, not on all pairs of group and rank.
class GroupAssembly {
 public:
  GroupAssembly(const EmbeddingLayout& layout, int rank, int64_t id_bytes)
      : mine_(layout.owner(rank)), id_bytes_(id_bytes) {}

  struct Message {
    View<char> bytes;
    int64_t samples = 0;
  };
  /// Reserves the memory of `owner` for the messages, by source. Returns the number of ids. Throws
  /// run_error if a message is damaged.
  size_t begin(View<const Message> messages, OwnerSide& owner);
  /// Sets the owner's pieces. The messages of begin() must still exist. Throws run_error if one is
  /// damaged.
  void finish(int threads, OwnerSide& owner);

 private:
  /// The part of a group in the message of one rank.
  struct Received {
    const GroupSpan* span;
    int source;
  };

  void open(View<const Message> messages);
  void sort_by_group();
  void size_groups();
  View<const Received> received_of(size_t group) const {
    const size_t first = first_received_[group];
    return {received_.data() + first, first_received_[group + 1] - first};
  }
  // All return false if a message is damaged.
  template <class T>
  bool assemble(size_t group, OwnerSide& owner) const;
  template <class T>
  bool assemble_non_empty(size_t group, BagCursor<T> cursor, OwnerSide& owner) const;
  template <class T>
  bool assemble_every(size_t group, BagCursor<T> cursor, OwnerSide& owner) const;
  template <class T>
  bool read_group(size_t group, const GroupSpan& span, int64_t samples, BagCursor<T>& cursor) const;

  const OwnerLayout& mine_;
  const int64_t id_bytes_;
  std::vector<int64_t> samples_;  ///< by source
  int64_t all_samples_ = 0;
  std::vector<GroupSpan> spans_;                        ///< by source, then group
  std::vector<size_t> end_of_source_;                   ///< in spans_
  std::vector<Received> received_;                      ///< by group, then source
  std::vector<size_t> first_received_, next_received_;  ///< of received_, by group
  std::vector<OwnerSide::GroupSize> sizes_;
  std::vector<OwnerSide::GroupBuffer> buffers_;
};

}  // namespace dlrm
