#pragma once
#include <functional>
#include <string>
#include <vector>

#include "block_channel.h"
#include "record_layout.h"

namespace dlrm {

/// The checksums of a file's blocks, in memory. A block that was overwritten or that was never
/// written is therefore recognised too.
class BlockSums {
 public:
  BlockSums(int64_t blocks, std::string label) : label_(std::move(label)), sums_(blocks) {}
  void set(int64_t first, View<const std::byte> blocks);
  /// Throws a run_error that names the block, if these are not its bytes.
  void check(int64_t block, const std::byte* data) const;

 private:
  const std::string label_;
  ZeroedArray<uint32_t> sums_;
};

/// Blocks of a transfer, at most. Every record fits.
int64_t most_blocks_of(const RecordLayout& layout);

/// A record to read.
struct Wanted {
  uint32_t place = 0;
  uint32_t tag = 0;
};

/// Reads records and checks their blocks. For one thread at a time.
class RecordReader {
 public:
  RecordReader(BlockFile& file, const std::string& label, int depth, const RecordLayout& layout,
               const BlockSums& sums);

  /// Reads the records of distinct places and sorts them by place. Each block is read once. Blocks
  /// that are close to each other make one transfer. Calls take(tag, record) in any order.
  using Take = std::function<void(uint32_t tag, const std::byte* record)>;
  void read(std::vector<Wanted>& wanted, const Take& take) {
    start_read(wanted);
    finish_read(wanted, take);
  }
  /// The two parts of read().
  void start_read(std::vector<Wanted>& wanted);
  void finish_read(const std::vector<Wanted>& wanted, const Take& take);
  /// The row numbers of a sealed segment's records.
  void read_rows(int64_t segment, std::vector<uint32_t>& rows);

  BlockChannel& channel() { return channel_; }

 private:
  void add_ranges(View<const Wanted> wanted);
  void take_range(View<const Wanted> wanted, const BlockRange& range, const std::byte* data,
                  const Take& take) const;

  const RecordLayout& layout_;
  const BlockSums& sums_;
  BlockChannel channel_;
  std::vector<BlockRange> ranges_;
  std::vector<size_t> begins_;  // of a range's records in `wanted`, then their number
};

}  // namespace dlrm
