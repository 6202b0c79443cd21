#pragma once
#include <functional>
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
 public:
  /// `label` begins every message. Ranges that are read have at most `most_blocks` blocks.
  BlockChannel(BlockFile& file, std::string label, int depth, int64_t most_blocks);
  ~BlockChannel();
  BlockChannel(const BlockChannel&) = delete;
  BlockChannel& operator=(const BlockChannel&) = delete;

  /// Starts to read ranges, as many as may be under way. The array must stay until finish_read().
  void start_read(View<const BlockRange> ranges);
  /// Reads the rest. Calls arrived(i, data) when range i has arrived, in any order. The data is
  /// valid during that call.
  using Arrived = std::function<void(size_t range, const std::byte* data)>;
  void finish_read(const Arrived& arrived);
  void read(View<const BlockRange> ranges, const Arrived& arrived) {
    start_read(ranges);
    finish_read(arrived);
  }
  /// Writes whole blocks, from block `first` on.
  void write(int64_t first, View<std::byte> data);

  int64_t most_blocks() const { return most_blocks_; }
  /// Bytes that were read and written so far.
  int64_t bytes_read() const { return bytes_read_; }
  int64_t bytes_written() const { return bytes_written_; }

 private:
  struct Pending {
    BlockTransfer rest;
    size_t range = 0;
    int attempts_left = 0;
  };
  /// Starts `count` transfers, each by first(i, id), as far as the queue is deep.
  void start(size_t count, std::function<BlockTransfer(size_t, int)> first);
  void start_next();
  /// Waits for what is under way, and starts nothing more.
  void drain();
  /// Starts the rest. Waits for all, also after an error.
  void finish(const std::function<void(size_t, int)>& ended);
  /// Notes what a transfer moved. True if it has ended, otherwise it is started again.
  bool advance(int id, int64_t result);
  std::byte* buffer(int id) const { return buffers_.data() + id * most_blocks_ * kBlockBytes; }

  const std::string label_;
  const int64_t most_blocks_;
  ZeroedArray<std::byte> buffers_;
  std::unique_ptr<BlockQueue> queue_;  // is destroyed before the buffers
  std::vector<Pending> pending_;
  std::function<BlockTransfer(size_t, int)> first_;  // of the transfers to start
  size_t next_ = 0, count_ = 0;                      // of these
  View<const BlockRange> ranges_;                    // that are read
  int64_t bytes_read_ = 0, bytes_written_ = 0;
  std::vector<Completion> completions_;
  std::vector<int> free_;
};

}  // namespace dlrm
