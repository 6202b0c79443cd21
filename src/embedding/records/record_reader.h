#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/plan/cache_size.h"

#include "block_channel.h"
#include "record_layout.h"

namespace dlrm {

/// The checksums of a file, in memory, one for each of its parts of kBytes. A part that was
/// overwritten or that was never written is therefore recognised too. Parts are shorter than
/// blocks, so that of a block that is read for one record only little is checked.
class PartSums {
 public:
  static constexpr int64_t kBytes = kSummedBytes;
  static_assert(kBlockBytes % kBytes == 0);

  PartSums(int64_t blocks, std::string label)
      : label_(std::move(label)), sums_(blocks * (kBlockBytes / kBytes)) {}
  void set(int64_t first_block, View<const std::byte> blocks);
  /// Throws a run_error that names the block, if these are not the bytes of the part.
  void check(int64_t part, const std::byte* data) const;
  /// The part will be checked soon.
  void prefetch(int64_t part) const { __builtin_prefetch(&sums_[part]); }

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

/// Reads records and checks their parts of the file. For one thread at a time.
class RecordReader {
 public:
  RecordReader(BlockFile& file, const std::string& label, int depth, const RecordLayout& layout,
               const PartSums& sums);

  using Take = std::function<void(uint32_t tag, const std::byte* record)>;
  /// Records that are read. Ended unfinished, it waits for the transfers under way.
  class Read {
   public:
    /// Starts to read the records of distinct places. Each block is read once. Blocks that are
    /// close to each other make one transfer. Calls take(tag, record) in any order, during finish()
    /// of this read or another one of the reader.
    Read(RecordReader& reader, std::vector<Wanted> wanted, Take take);
    void finish() { read_->finish(); }

   private:
    void arrived(size_t range, const std::byte* data) const;

    RecordReader& reader_;
    std::vector<Wanted> wanted_;  ///< by place
    const Take take_;
    std::vector<BlockRange> ranges_;
    std::vector<size_t> begins_;  ///< of a range's records in wanted_, then their number
    std::unique_ptr<BlockChannel::Read> read_;  // declared last, so that it ends first
  };
  /// The row numbers of a sealed segment's records.
  void read_rows(int64_t segment, std::vector<uint32_t>& rows);

  BlockChannel& channel() { return channel_; }

 private:
  const RecordLayout& layout_;
  const PartSums& sums_;
  BlockChannel channel_;
};

}  // namespace dlrm
