#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/core/file.h"
#include "dlrm/core/view.h"

#include "record_store.h"

namespace dlrm {

/// The unit of transfers and of checksums. O_DIRECT requires multiples of it.
inline constexpr int64_t kBlockBytes = 4096;

/// A transfer between memory and a file.
struct BlockTransfer {
  bool write = false;
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t offset = 0;
};

/// The end of a transfer.
struct Completion {
  int id = 0;
  int64_t result = 0;  ///< bytes moved, or minus the error number
};

/// Transfers that are under way at the same time. For one thread at a time. The thread that started
/// them must wait for them.
class BlockQueue {
 public:
  virtual ~BlockQueue() = default;
  /// Starts a transfer, at the latest with the next submit() or finish(). At most `depth` may be
  /// under way.
  virtual void start(int id, const BlockTransfer& transfer) = 0;
  virtual void submit() {}
  /// Waits until `count` transfers have ended. Appends all that have. At least as many are under
  /// way.
  virtual void finish(size_t count, std::vector<Completion>& completions) = 0;
};

/// io_uring. No queue if the kernel or the container refuses it. Transfers to and from `memory`
/// take less time. It outlives the queue.
std::unique_ptr<BlockQueue> make_uring_queue(const File& file, int depth, View<std::byte> memory);
/// Threads that call pread and pwrite.
std::unique_ptr<BlockQueue> make_thread_queue(const File& file, int threads);

/// A file of blocks.
class BlockFile {
 public:
  virtual ~BlockFile() = default;
  /// Makes the file `bytes` long, with space on the disk. Returns 0 or an error number.
  virtual int resize(int64_t bytes) = 0;
  /// A queue of at most `depth` transfers. `memory` is as for make_uring_queue().
  virtual std::unique_ptr<BlockQueue> queue(int depth, View<std::byte> memory) = 0;
  /// "io_uring with O_DIRECT"
  virtual std::string description() const = 0;
};

/// Creates a file without a name in options.directory. A usage_error if that is impossible.
std::unique_ptr<BlockFile> open_block_file(const SsdRecordsOptions& options);

}  // namespace dlrm
