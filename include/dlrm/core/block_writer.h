#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dlrm/core/file.h"

namespace dlrm {

/// Memory that begins at a multiple of kBlockAlignment.
struct FreeBlock {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBlock = std::unique_ptr<std::byte[], FreeBlock>;
constexpr int64_t kBlockAlignment = 4096;
/// `bytes` is a multiple of kBlockAlignment. Throws std::bad_alloc.
AlignedBlock aligned_block(size_t bytes);

/// Writes blocks of memory to a file on threads of its own, several at a time, so that the caller
/// need not wait for the disk. Used by one thread at a time.
class BlockWriter {
 public:
  /// `block_bytes` is a multiple of kBlockAlignment. The file outlives the writer.
  BlockWriter(File& file, size_t block_bytes);
  /// Waits for the writes that have begun, and drops the others.
  ~BlockWriter();
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  /// Blocks that may wait to be written, besides those of the caller.
  static constexpr int64_t kQueued = 8;

  size_t block_bytes() const { return block_bytes_; }
  /// Writes the first `bytes` bytes of `block` at `offset`, and replaces it by another block of
  /// block_bytes(). Waits if kQueued blocks are not written yet. Throws the run_error of an earlier
  /// write.
  void write(AlignedBlock& block, size_t bytes, int64_t offset);
  /// Waits until all is written. Throws the run_error of a write.
  void wait();

 private:
  struct Write {
    AlignedBlock block;
    size_t bytes;
    int64_t offset;
  };
  void work();
  void stop();

  File& file_;
  size_t block_bytes_;
  std::mutex mutex_;
  std::condition_variable queued_, written_;
  std::deque<Write> queue_;
  std::vector<AlignedBlock> spare_;
  int64_t unwritten_ = 0;
  std::exception_ptr error_;  ///< of the first write that failed
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dlrm
