#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlrm/device/device.h"

#include "arena.h"
#include "arena_view.h"
#include "comm/calls/block_pool.h"
#include "comm/mpi/mpi_c.h"

namespace dlrm::comm {

class ExchangeTable;

/// The ranks of this node and the memory that they share.
class SharedMemoryGroup {
 public:
  /// Collective among all ranks of `world`; `local` are those of this node. If the ranks of any
  /// node cannot share memory, returns null on every rank and puts the reason in `why` on rank 0.
  static std::shared_ptr<SharedMemoryGroup> make(MPI_Comm world, MPI_Comm local, std::string& why);

  /// Ranks of this node, including this one.
  int size() const { return static_cast<int>(views_.size()); }
  int local_rank() const { return local_rank_; }
  /// Returns the local rank of a rank of the world; -1 if it is on another node.
  int local_rank_of(int rank) const { return local_of_[static_cast<size_t>(rank)]; }
  /// This rank's memory.
  Arena& arena() { return arena_; }
  /// Copies in this memory of data that lies elsewhere.
  BlockPool<Arena>& pool() { return pool_; }
  /// Maps memory of a local rank.
  std::byte* at(int local, ArenaAddress address) {
    return views_[static_cast<size_t>(local)]->at(address);
  }

  void add(const ExchangeTable& table);
  void remove(const ExchangeTable& table);
  /// Throws if a rank of this node sends bytes that this rank does not expect.
  void check_skipped();

  /// Returns a device that allocates in the arena and otherwise behaves as `inner`. It lives as
  /// long as this object.
  Device& device_over(Device& inner);

 private:
  SharedMemoryGroup() = default;
  void warn_exhausted(size_t bytes);
  void connect(MPI_Comm world, MPI_Comm local);

  struct SharedDevice {
    Device* inner;
    std::unique_ptr<Device> device;
  };

  Arena arena_;
  BlockPool<Arena> pool_{arena_};
  int rank_ = 0;
  int local_rank_ = 0;
  std::vector<int> local_of_;
  std::vector<std::unique_ptr<ArenaView>> views_;
  std::mutex tables_mutex_;
  std::vector<const ExchangeTable*> tables_;
  std::once_flag warned_;
  std::mutex devices_mutex_;
  std::vector<SharedDevice> devices_;
};

}  // namespace dlrm::comm
