#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlrm/device/device.h"

#include "arena.h"
#include "arena_blocks.h"
#include "mpi_c.h"

namespace dlrm {

class Board;

/// The ranks of this machine and the memory that they show one another.
class SharedNode {
 public:
  /// Collective among all ranks of `world`; `local` are those of this machine. Null on every rank,
  /// with the reason in `why` of rank 0, where some rank cannot share memory with those beside it.
  static std::shared_ptr<SharedNode> make(MPI_Comm world, MPI_Comm local, std::string& why);

  /// Ranks of this machine, this one included.
  int size() const { return static_cast<int>(views_.size()); }
  int local_rank() const { return local_rank_; }
  /// Number of a rank of the world on this machine, -1 if it is elsewhere.
  int local_rank_of(int rank) const { return local_of_[static_cast<size_t>(rank)]; }
  Arena& arena() { return arena_; }
  ArenaBlocks& blocks() { return blocks_; }
  /// What a rank of this machine shows there.
  std::byte* at(int local, Spot place) { return views_[static_cast<size_t>(local)]->at(place); }
  void add(const Board& board);
  void remove(const Board& board);
  /// Throws where a rank of this machine sends to this one what it never looks for.
  void check_skipped();
  /// A device that allocates in the arena and is `inner` otherwise.
  Device& memory(Device& inner);

 private:
  SharedNode() = default;
  /// Says once that what follows is exchanged more slowly.
  void say_refused(size_t bytes);
  void connect(MPI_Comm world, MPI_Comm local);

  Arena arena_;
  ArenaBlocks blocks_{arena_};
  int rank_ = 0;
  int local_rank_ = 0;
  std::vector<int> local_of_;
  std::vector<std::unique_ptr<ArenaView>> views_;
  std::mutex boards_mutex_;
  std::vector<const Board*> boards_;
  std::atomic<bool> said_refused_{false};
  std::mutex devices_mutex_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> inner_;
};

}  // namespace dlrm
