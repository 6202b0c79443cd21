#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shared_memory_group.h"

namespace dlrm::comm {

/// A block that one rank sends to another.
struct BlockRef {
  int64_t bytes;
  ArenaAddress address;  ///< null: the bytes travel as an MPI message
};

/// One rank's side of one exchange, as the other ranks of its node see it. Its blocks follow it in
/// memory, then the inline payload.
class alignas(64) ExchangeDescriptor {
 public:
  uint32_t kind = 0;    ///< of the collective; peers wait until theirs is the same
  bool in_use = false;  ///< for the owner only
  BlockRef* blocks() { return reinterpret_cast<BlockRef*>(this + 1); }

  /// Makes it visible as exchange `sequence`, which `readers` ranks will read.
  void publish(uint64_t sequence, int readers) {
    state_.store((sequence + 1) << kReaderBits | static_cast<uint64_t>(readers),
                 std::memory_order_release);
  }
  bool has_sequence(uint64_t sequence) const {
    return state_.load(std::memory_order_acquire) >> kReaderBits == sequence + 1;
  }
  /// Called by a reader that no longer needs the descriptor or its blocks.
  void finish_reading() { state_.fetch_sub(1, std::memory_order_acq_rel); }
  bool all_have_read() const {
    return state_.load(std::memory_order_acquire) % (uint64_t{1} << kReaderBits) == 0;
  }

 private:
  static constexpr int kReaderBits = 16;

  /// sequence + 1, 0 if never published, then the number of readers that have not finished. One
  /// word, so that a reader sees both.
  std::atomic<uint64_t> state_{0};
};

/// The exchange descriptors of one communicator. Each rank publishes in its own table and reads
/// those of the other ranks of its node. One thread at a time.
class ExchangeTable {
 public:
  /// Small blocks lie inline in the descriptor, so that the sender need not wait for its readers.
  static constexpr int64_t kInlineBytes = 2048;

  /// Call connect() next. Throws run_error if no shared memory is left.
  ExchangeTable(std::shared_ptr<SharedMemoryGroup> group, int ranks);
  ~ExchangeTable();
  ExchangeTable(const ExchangeTable&) = delete;
  ExchangeTable& operator=(const ExchangeTable&) = delete;

  ArenaAddress address() const;
  /// @param addresses  of the tables of all ranks; those of other nodes are ignored
  void connect(const std::vector<ArenaAddress>& addresses);

  const std::shared_ptr<SharedMemoryGroup>& group() const { return group_; }
  /// True if all ranks of the communicator are on this node.
  bool spans_all_ranks() const { return group_->size() == ranks_; }
  bool is_local(int rank) const { return group_->local_rank_of(rank) >= 0; }

  /// Returns a free descriptor for exchange `sequence`. It stays reserved until the caller clears
  /// `in_use`.
  ExchangeDescriptor& acquire(uint64_t sequence);
  std::byte* inline_payload(ExchangeDescriptor& descriptor) const;
  ArenaAddress inline_address(ExchangeDescriptor& descriptor) const;
  /// Returns the descriptor of `rank` for exchange `sequence`; null if not published yet.
  ExchangeDescriptor* find(int rank, uint64_t sequence) const;
  /// The block that a descriptor holds for this rank.
  const BlockRef& block_for_me(ExchangeDescriptor& descriptor) const {
    return descriptor.blocks()[group_->local_rank()];
  }
  BlockRef& block_for(ExchangeDescriptor& descriptor, int rank) const {
    return descriptor.blocks()[group_->local_rank_of(rank)];
  }
  std::byte* at(int rank, ArenaAddress address) const {
    return group_->at(group_->local_rank_of(rank), address);
  }

  /// Notes that this rank expects no bytes of `rank` in an exchange and does not look for its
  /// descriptor.
  void skip(int rank, uint64_t sequence, const char* name) {
    skipped_[skips_++ % kSkips] = {rank, sequence, name};
  }
  /// Throws if a rank sends bytes to this one in one of the last skipped exchanges. It may be
  /// waiting for them to be read.
  void check_skipped() const;

 private:
  struct Chunk;
  Chunk* make_chunk();
  Chunk* add_chunk();
  ExchangeDescriptor& descriptor(Chunk* chunk, uint64_t sequence) const;
  size_t descriptor_bytes() const;

  struct Skip {
    int rank = 0;
    uint64_t sequence = 0;
    const char* name = "";
  };
  static constexpr size_t kSkips = 256;

  const std::shared_ptr<SharedMemoryGroup> group_;
  const int ranks_;
  size_t skips_ = 0;
  std::array<Skip, kSkips> skipped_;
  std::vector<Chunk*> own_;
  std::vector<std::byte*> first_;  ///< first chunk of each rank of this node
};

}  // namespace dlrm::comm
