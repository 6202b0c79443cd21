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

  /// Reads ranges. Calls arrived(i, data) when range i has arrived, in any order. The data is valid
  /// during that call.
  using Arrived = std::function<void(size_t range, const std::byte* data)>;
  void read(View<const BlockRange> ranges, const Arrived& arrived);
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
  /// Makes `count` transfers, each by first(i, id). Waits for all, also after an error.
  void run(size_t count, const std::function<BlockTransfer(size_t, int)>& first,
           const std::function<void(size_t, int)>& ended);
  /// Notes what a transfer moved. True if it has ended, otherwise it is started again.
  bool advance(int id, int64_t result);
  std::byte* buffer(int id) const { return buffers_.data() + id * most_blocks_ * kBlockBytes; }

  const std::string label_;
  const int64_t most_blocks_;
  ZeroedArray<std::byte> buffers_;
  std::unique_ptr<BlockQueue> queue_;  // is destroyed before the buffers
  std::vector<Pending> pending_;
  int64_t bytes_read_ = 0, bytes_written_ = 0;
  std::vector<Completion> completions_;
  std::vector<int> free_;
};

}  // namespace dlrm
