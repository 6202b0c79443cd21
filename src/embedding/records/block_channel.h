#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "block_file.h"
#include "zeroed_array.h"

namespace dlrm {

/// Consecutive blocks of a file.
struct BlockRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// Reads and writes blocks with many transfers under way. Continues short and interrupted ones. For
/// one thread at a time.
class BlockChannel {
 private:
  /// Transfers that end together.
  struct Job {
    std::function<BlockTransfer(size_t, int)>
        transfer;  ///< number i, if its buffer is that of `id`
    std::function<void(size_t, int)> ended;
    size_t next = 0, count = 0;  ///< to start
    size_t left = 0;             ///< that have not ended
    std::exception_ptr failure;  ///< of the first transfer that failed
  };

 public:
  /// `label` begins every message. Ranges that are read have at most `most_blocks` blocks.
  BlockChannel(BlockFile& file, std::string label, int depth, int64_t most_blocks);
  BlockChannel(const BlockChannel&) = delete;
  BlockChannel& operator=(const BlockChannel&) = delete;

  using Arrived = std::function<void(size_t range, const std::byte* data)>;
  /// Ranges that are read. Ended unfinished, it waits for the transfers under way.
  class Read {
   public:
    /// Starts as many transfers as may be under way. Calls arrived(i, data) when range i has
    /// arrived, in any order, during finish() of this read or another one. The data is valid during
    /// that call. The array must stay.
    Read(BlockChannel& channel, View<const BlockRange> ranges, Arrived arrived);
    ~Read();
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;
    /// Starts the rest. Waits for all of them, also after an error.
    void finish() { channel_.finish(job_); }

   private:
    BlockChannel& channel_;
    Job job_;
  };
  /// Writes whole blocks, from block `first` on.
  void write(int64_t first, View<std::byte> data);

  int64_t most_blocks() const { return most_blocks_; }
  /// Bytes that were read and written so far.
  int64_t bytes_read() const { return bytes_read_; }
  int64_t bytes_written() const { return bytes_written_; }

 private:
  struct Pending {
    BlockTransfer rest;
    Job* job = nullptr;
    size_t number = 0;  ///< of the job's transfer
    int attempts_left = 0;
  };
  void start(Job& job, size_t count);
  /// Starts transfers, the oldest job's first. Returns false if some must wait.
  bool start_next();
  void finish(Job& job);
  /// Waits for what is under way, and starts nothing more.
  void cancel(Job& job);
  /// Waits until `count` transfers have ended.
  void complete(size_t count);
  /// Starts nothing more of a job.
  static void give_up(Job& job);
  /// Notes what a transfer moved. True if it has ended, otherwise it is started again.
  bool advance(int id, int64_t result);
  std::byte* buffer(int id) const { return buffers_.data() + id * most_blocks_ * kBlockBytes; }

  const std::string label_;
  const int64_t most_blocks_;
  ZeroedArray<std::byte> buffers_;
  std::unique_ptr<BlockQueue> queue_;  // is destroyed before the buffers
  std::vector<Pending> pending_;
  std::vector<Job*> jobs_;  ///< that are not finished, the oldest first
  int64_t bytes_read_ = 0, bytes_written_ = 0;
  std::vector<Completion> completions_;
  std::vector<int> free_;
};

}  // namespace dlrm
