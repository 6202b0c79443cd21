#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shared_node.h"

namespace dlrm {

/// What a rank shows one other rank of an exchange.
struct Offer {
  int64_t bytes;
  Spot place;  ///< nowhere: the bytes come as an MPI message
};

/// A rank's side of one exchange, as the others of its machine see it.
class alignas(64) Notice {
 public:
  uint32_t kind = 0;  ///< of the call; others wait until theirs is the same
  bool held = false;  ///< for the owner: not to be given out again yet
  Offer* offers() { return reinterpret_cast<Offer*>(this + 1); }

  void post(uint64_t sequence, int readers) {
    readers_.store(readers, std::memory_order_relaxed);
    number_.store(sequence + 1, std::memory_order_release);
  }
  bool is(uint64_t sequence) const {
    return number_.load(std::memory_order_acquire) == sequence + 1;
  }
  /// A reader is through with it and with what it offers.
  void finish_reading() { readers_.fetch_sub(1, std::memory_order_acq_rel); }
  bool all_have_read() const { return readers_.load(std::memory_order_acquire) == 0; }

 private:
  std::atomic<uint64_t> number_{0};  ///< sequence + 1; 0: never posted
  std::atomic<int32_t> readers_{0};  ///< that are not through yet
};

/// Where the ranks of one machine find one another's notices of one communicator. A rank posts on
/// its own board and reads the others'. One thread at a time.
class Board {
 public:
  /// Small blocks lie beside their notice, so that their sender need not wait for the readers.
  static constexpr int64_t kBeside = 2048;

  /// Not shown to others yet: connect() comes next. Throws run_error where memory is out.
  Board(std::shared_ptr<SharedNode> node, int ranks);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  Spot place() const;
  /// `places` of every rank of the communicator; those of other machines are not used.
  void connect(const std::vector<Spot>& places);

  SharedNode& node() const { return *node_; }
  const std::shared_ptr<SharedNode>& shared_node() const { return node_; }
  /// Whether all ranks of the communicator are on this machine.
  bool complete() const { return node_->size() == ranks_; }
  bool reaches(int rank) const { return node_->local_rank_of(rank) >= 0; }

  /// An unused notice for the exchange `sequence`; held until the caller says otherwise.
  Notice& fresh(uint64_t sequence);
  std::byte* beside(Notice& notice) const;
  Spot place_beside(Notice& notice) const;
  /// That of rank `rank` for exchange `sequence`; null while there is none.
  Notice* find(int rank, uint64_t sequence) const;
  /// What a notice of `rank` offers to this one.
  const Offer& offer_to_me(Notice& notice) const { return notice.offers()[node_->local_rank()]; }
  Offer& offer_to(Notice& notice, int rank) const {
    return notice.offers()[node_->local_rank_of(rank)];
  }
  /// This rank expects nothing of `rank` in that exchange, and does not look for its notice.
  void expect_nothing(int rank, uint64_t sequence, const char* name) {
    skipped_[skips_++ % kSkips] = {rank, sequence, name};
  }
  /// Throws where a rank offers bytes to this one in one of the last exchanges that expected none:
  /// it may be waiting for them to be read.
  void check_skipped() const;
  std::byte* at(int rank, Spot place) const { return node_->at(node_->local_rank_of(rank), place); }

 private:
  struct Chunk;
  Chunk* make_chunk();
  Chunk* add_chunk();
  Notice& notice(Chunk* chunk, uint64_t sequence) const;
  size_t notice_bytes() const;

  struct Skip {
    int rank = 0;
    uint64_t sequence = 0;
    const char* name = "";
  };
  static constexpr size_t kSkips = 256;

  const std::shared_ptr<SharedNode> node_;
  const int ranks_;
  size_t skips_ = 0;
  std::array<Skip, kSkips> skipped_;
  std::vector<Chunk*> own_;
  std::vector<std::byte*> first_;  ///< chunk of each rank of this machine
};

}  // namespace dlrm
