#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "bag_message.h"
#include "embedding/pooling/owner_side.h"
#include "embedding/tables/layout.h"
#include "list_capacities.h"

namespace dlrm {

/// Makes an owner's groups from the messages of all ranks, of which each has the ids of the owner's
/// rows. Threads share the parts of groups that each rank sent. Of groups without empty bags only
/// the parts that have ids, or room for some, take work and memory.
class GroupAssembly {
 public:
  GroupAssembly(const EmbeddingLayout& layout, int rank, int64_t id_bytes);

  /// From now on the owner's lists have capacities that recur. Pieces then have empty bags behind
  /// those of their rank.
  void keep_sizes();

  struct Message {
    View<char> bytes;
    int64_t samples = 0;
  };
  /// Reserves the memory of `owner` for the messages, by source. Returns its room for ids. Batches
  /// come in the order in which they were routed. Throws run_error if a message is damaged.
  size_t begin(View<const Message> messages, OwnerSide& owner);
  /// Sets the owner's pieces. The messages of begin() must still exist. Throws run_error if one is
  /// damaged.
  void finish(int threads, OwnerSide& owner);

 private:
  /// The bags of a group that one rank sent.
  struct Part {
    const GroupSpan* span;  ///< null if no ids came
    size_t group;
    int source;
    int64_t capacity;       ///< room for ids
    int64_t first_id = 0;   ///< in the group's buffer
    int64_t first_bag = 0;  ///< likewise
  };

  void open(View<const Message> messages);
  void sort_by_group();
  void complete_parts();
  void size_groups();
  int64_t samples_of(const Part& part) const { return samples_[static_cast<size_t>(part.source)]; }
  /// Room for non-empty bags.
  int64_t most_bags(const Part& part) const { return std::min(samples_of(part), part.capacity); }
  size_t list_of(const Part& part) const {
    return part.group * static_cast<size_t>(world_) + static_cast<size_t>(part.source);
  }
  View<const Part> parts_of(size_t group) const {
    const size_t first = first_part_[group];
    return {parts_.data() + first, first_part_[group + 1] - first};
  }
  template <class T>
  void begin_bags(size_t group, OwnerSide& owner);
  // Both return false if a message is damaged.
  template <class T>
  bool assemble(size_t number, OwnerSide& owner);
  template <class T>
  bool read(const Part& part, BagCursor<T>& cursor) const;

  const OwnerLayout& mine_;
  const int world_;
  const int64_t id_bytes_;
  std::vector<char> weighted_;    ///< by group: its ids have weights
  ListCapacities ids_, bags_;     ///< by group, then source
  std::vector<int64_t> samples_;  ///< by source
  int64_t all_samples_ = 0;
  std::vector<GroupSpan> spans_;                ///< by source, then group
  std::vector<size_t> end_of_source_;           ///< in spans_
  std::vector<Part> parts_;                     ///< by group, then source
  std::vector<Part> complete_;                  ///< the next parts_, kept for its memory
  std::vector<size_t> first_part_, next_part_;  ///< of parts_, by group
  std::vector<OwnerSide::GroupSize> sizes_;
  std::vector<OwnerSide::GroupBuffer> buffers_;
};

}  // namespace dlrm
