#include <algorithm>
#include <cstring>

#include "dlrm/core/crc32c.h"
#include "dlrm/core/error.h"
#include "dlrm/data/dataset_file.h"

namespace dlrm {
namespace {

/// Compares parts of columns of one block with their checksums.
class BlockCheck {
 public:
  BlockCheck(const DatasetFile& file, int64_t block) : file_(file), block_(block) {
    const int64_t size = file.checksum_samples();
    samples_ = {block * size, std::min(file.samples(), (block + 1) * size)};
  }

  /// A column of `width` bytes a sample.
  void samples(const std::string& name, const std::byte* column, int64_t width,
               const std::byte* sums) const {
    compare(name, column, {samples_.begin * width, samples_.end * width}, sums);
  }

  void feature(const MappedFeature& feature) const {
    const int64_t width = bytes_of(feature.type);
    const std::string group = "/sparse/" + feature.name;
    if (feature.offsets == nullptr) {
      samples(group + "/ids", feature.ids, width * feature.hotness, feature.id_sums);
      if (!feature.weighted) return;
      return samples(group + "/weights", feature.weights, 4 * feature.hotness, feature.weight_sums);
    }
    // A block includes the offset at which its last sample ends.
    compare(group + "/offsets", feature.offsets, {samples_.begin * 8, samples_.end * 8 + 8},
            feature.offset_sums);
    const Range ids{offset(feature, samples_.begin), offset(feature, samples_.end)};
    if (ids.begin < 0 || ids.end < ids.begin || ids.end > feature.count) fail(group + "/offsets");
    compare(group + "/ids", feature.ids, {ids.begin * width, ids.end * width}, feature.id_sums);
    if (!feature.weighted) return;
    compare(group + "/weights", feature.weights, {ids.begin * 4, ids.end * 4}, feature.weight_sums);
  }

 private:
  static int64_t offset(const MappedFeature& feature, int64_t index) {
    int64_t value = 0;
    std::memcpy(&value, feature.offsets + index * 8, 8);
    return value;
  }

  void compare(const std::string& name, const std::byte* column, Range bytes,
               const std::byte* sums) const {
    Crc32c crc;
    crc.add(column + bytes.begin, static_cast<size_t>(bytes.size()));
    uint32_t expected = 0;
    std::memcpy(&expected, sums + block_ * 4, 4);
    if (crc.value() != expected) fail(name);
  }

  [[noreturn]] void fail(const std::string& name) const {
    throw usage_error(
        "{}: {} is damaged in samples {} to {}: their CRC32C is not the one that was written "
        "(data.verify: false reads them anyway)",
        file_.path(), name, samples_.begin, samples_.end - 1);
  }

  const DatasetFile& file_;
  int64_t block_;
  Range samples_;
};

}  // namespace

void DatasetFile::verify(int64_t block, View<const size_t> features) const {
  const BlockCheck check(*this, block);
  check.samples("/label", labels_, label_bytes(), label_sums_);
  if (weighted_) check.samples("/weight", weights_, 4, weight_sums_);
  check.samples("/dense", dense_, dense_width_ * 4, dense_sums_);
  for (const size_t f : features) check.feature(features_[f]);
}

}  // namespace dlrm
