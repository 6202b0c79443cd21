#include "dlrm/data/dataset_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include "dlrm/core/crc32c.h"
#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

#include "column_buffers.h"
#include "dataset_layout.h"

namespace dlrm {
namespace {

void check_layout(const std::string& path, const DatasetLayout& layout) {
  for (const FeatureColumn& feature : layout.features) {
    if (feature.name.empty() || feature.name == "." ||
        feature.name.find('/') != std::string::npos) {
      throw usage_error("{}: a feature cannot be named '{}' in a dataset", path, feature.name);
    }
    const bool narrow = feature.ids == IdType::kInt32;
    if (narrow && feature.rows > int64_t{std::numeric_limits<int32_t>::max()} + 1) {
      throw usage_error("{}: feature {} has {} rows, too many for 32-bit ids", path, feature.name,
                        feature.rows);
    }
  }
}

/// Bytes after which the disk begins to write, while the caller makes more samples.
constexpr int64_t kStartSync = int64_t{1} << 26;

bool sizes_are_known(const DatasetLayout& layout) {
  if (layout.samples < 0) return false;
  for (const FeatureColumn& feature : layout.features) {
    if (feature.hotness == 0 && feature.count < 0) return false;
  }
  return true;
}

/// The checksums of a column: of its finished blocks, and of the bytes of the block in work.
struct BlockSums {
  Crc32c block;
  std::vector<uint32_t> finished;
};

/// Samples [from, from + count) of a block. `used` are the ids of each feature before `from`; those
/// of the part are added.
DatasetBlock part_of(const DatasetLayout& layout, const DatasetBlock& block, int64_t from,
                     int64_t count, std::vector<size_t>& used) {
  const auto begin = static_cast<size_t>(from), n = static_cast<size_t>(count);
  const auto width = static_cast<size_t>(layout.dense);
  const auto labels = static_cast<size_t>(layout.labels);
  DatasetBlock part;
  part.samples = count;
  part.labels = block.labels.subspan(begin * labels, n * labels);
  if (layout.weighted) part.weights = block.weights.subspan(begin, n);
  part.dense = block.dense.subspan(begin * width, n * width);
  for (size_t f = 0; f < block.bags.size(); ++f) {
    const BagColumn& bags = block.bags[f];
    BagColumn column;
    size_t ids = n * static_cast<size_t>(layout.features[f].hotness);
    if (layout.features[f].hotness == 0) {
      column.lengths = bags.lengths.subspan(begin, n);
      for (const int32_t length : column.lengths) ids += static_cast<size_t>(length);
    }
    if (layout.features[f].ids == IdType::kInt32) {
      column.ids = bags.ids.subspan(used[f], ids);
    } else {
      column.wide_ids = bags.wide_ids.subspan(used[f], ids);
    }
    if (layout.features[f].weighted) column.weights = bags.weights.subspan(used[f], ids);
    used[f] += ids;
    part.bags.push_back(column);
  }
  return part;
}

}  // namespace

class DatasetWriter::Impl {
 public:
  Impl(const std::string& path, DatasetLayout layout, int64_t buffers)
      : path_(path), partial_(path), layout_(std::move(layout)) {
    check_layout(path_, layout_);
    direct_ = sizes_are_known(layout_);
    ids_.assign(layout_.features.size(), 0);
    filled_.assign(column_count(layout_), 0);
    sums_.resize(filled_.size());
    if (direct_) {
      create(layout_.samples);
      if (buffers > 0) buffers_.emplace(partial(), extents_, filled_.size(), buffers);
    } else {
      open_spools();
    }
    for_each_offsets([&](size_t column, size_t f) { write(column, &ids_[f], 8); });
  }

  void append(const DatasetBlock& block) {
    check_block(block);
    std::vector<size_t> used(ids_.size(), 0);
    for (int64_t from = 0; from < block.samples;) {
      const int64_t room = kChecksumSamples - samples_ % kChecksumSamples;
      const int64_t count = std::min(room, block.samples - from);
      append_part(part_of(layout_, block, from, count, used));
      if (count == room) finish_block();
      from += count;
    }
    if (direct_ && unwritten_ >= kStartSync) {
      file_->start_sync();
      unwritten_ = 0;
    }
  }

  void set_rows(int64_t index, int64_t rows) {
    layout_.features.at(static_cast<size_t>(index)).rows = rows;
  }

  int64_t samples() const { return samples_; }

  void finish() {
    DLRM_CHECK(!finished_, "{}", path_);
    check_layout(path_, layout_);
    if (samples_ % kChecksumSamples > 0) finish_block();
    if (direct_) {
      DLRM_CHECK(samples_ == layout_.samples, "{}: {} of {}", path_, samples_, layout_.samples);
      for (size_t c = 0; c < filled_.size(); ++c) {
        DLRM_CHECK(filled_[c] == extents_[c].bytes, "column {}", c);
      }
      if (buffers_) buffers_->finish();
      write_rows_attributes(partial(), layout_);
    } else {
      create(samples_);
      for (size_t c = 0; c < spools_.size(); ++c) {
        DLRM_CHECK(filled_[c] == extents_[c].bytes, "column {}", c);
        file_->copy(spools_[c], filled_[c], extents_[c].offset);
      }
      spools_.clear();
    }
    for (size_t c = 0; c < sums_.size(); ++c)
      write_sums(sums_[c].finished, extents_[sums_.size() + c]);
    partial_.publish(*file_);
    finished_ = true;
  }

 private:
  const std::string& partial() const { return partial_.name(); }

  void create(int64_t samples) {
    for (size_t f = 0; f < ids_.size(); ++f) {
      const int64_t hotness = layout_.features[f].hotness;
      if (hotness > 0) ids_[f] = samples * hotness;
    }
    // Tried before HDF5 creates the file, because HDF5 does not report the reason of a failure.
    if (!File::try_open(partial(), File::Mode::kCreate)) {
      throw usage_error("{}: cannot create: {}", path_, std::strerror(errno));
    }
    std::vector<int64_t> ids = ids_;
    for (size_t f = 0; f < ids.size(); ++f) {
      if (direct_ && layout_.features[f].hotness == 0) ids[f] = layout_.features[f].count;
    }
    extents_ = create_dataset_file(partial(), layout_, samples, ids);
    file_.emplace(partial(), File::Mode::kReadWrite);
  }

  // Creates them in the output's folder, which has the space. They have no names, so none can be
  // left behind.
  void open_spools() {
    for (size_t c = 0; c < filled_.size(); ++c) {
      auto spool = File::try_nameless(partial());
      if (!spool) throw usage_error("{}: cannot create: {}", path_, std::strerror(errno));
      spools_.push_back(std::move(*spool));
    }
  }

  /// Calls body(column, feature) for every column of offsets.
  template <class Body>
  void for_each_offsets(const Body& body) {
    for (size_t column = first_feature_column(layout_), f = 0; f < ids_.size(); ++f) {
      if (layout_.features[f].hotness == 0) body(column + 1, f);
      column += column_count(layout_.features[f]);
    }
  }

  /// Appends samples that end with the checksums' block, or before.
  void append_part(const DatasetBlock& part) {
    if (samples_ % kChecksumSamples == 0) {
      // The offset at which a block's first bag begins belongs to the block too.
      for_each_offsets([&](size_t column, size_t f) { sums_[column].block.add(&ids_[f], 8); });
    }
    put_labels(part);
    put(1, part.dense.data(), part.samples * layout_.dense * 4);
    if (layout_.weighted) put(2, part.weights.data(), part.samples * 4);
    size_t column = first_feature_column(layout_);
    for (size_t f = 0; f < ids_.size(); ++f) column = put_bags(column, f, part);
    samples_ += part.samples;
  }

  void finish_block() {
    for (BlockSums& sums : sums_) {
      sums.finished.push_back(sums.block.value());
      sums.block = {};
    }
  }

  void write_sums(const std::vector<uint32_t>& sums, const Extent& extent) {
    DLRM_CHECK(static_cast<int64_t>(sums.size()) * 4 == extent.bytes, "{}", path_);
    if (!sums.empty()) file_->write(sums.data(), sums.size() * 4, extent.offset);
  }

  /// Appends bytes to a column and to the checksum of its block.
  void put(size_t column, const void* data, int64_t bytes) {
    sums_[column].block.add(data, static_cast<size_t>(bytes));
    write(column, data, bytes);
  }

  void write(size_t column, const void* data, int64_t bytes) {
    if (buffers_) {
      buffers_->append(column, data, bytes);
      filled_[column] += bytes;
      return;
    }
    File& file = direct_ ? *file_ : spools_[column];
    const int64_t base = direct_ ? extents_[column].offset : 0;
    file.write(data, static_cast<size_t>(bytes), base + filled_[column]);
    filled_[column] += bytes;
    unwritten_ += bytes;
  }

  void put_labels(const DatasetBlock& block) {
    if (layout_.label == LabelType::kFloat32) {
      put(0, block.labels.data(), block.samples * layout_.labels * 4);
      return;
    }
    bytes_.resize(block.labels.size());
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>(block.labels[i]);
    put(0, bytes_.data(), static_cast<int64_t>(bytes_.size()));
  }

  /// Returns the next feature's first column.
  size_t put_bags(size_t column, size_t f, const DatasetBlock& block) {
    const FeatureColumn& feature = layout_.features[f];
    const BagColumn& bags = block.bags[f];
    const bool narrow = feature.ids == IdType::kInt32;
    const auto count = static_cast<int64_t>(narrow ? bags.ids.size() : bags.wide_ids.size());
    const void* data = narrow ? static_cast<const void*>(bags.ids.data()) : bags.wide_ids.data();
    put(column++, data, count * bytes_of(feature.ids));
    if (feature.hotness == 0) {
      offsets_.clear();
      for (const int32_t length : bags.lengths) offsets_.push_back(ids_[f] += length);
      put(column++, offsets_.data(), block.samples * 8);
    }
    if (feature.weighted) put(column++, bags.weights.data(), count * 4);
    return column;
  }

  void check_block(const DatasetBlock& block) const {
    const auto n = static_cast<size_t>(block.samples);
    DLRM_CHECK(block.labels.size() == n * static_cast<size_t>(layout_.labels), "{}", path_);
    DLRM_CHECK(block.bags.size() == ids_.size(), "{}", path_);
    DLRM_CHECK(block.weights.size() == (layout_.weighted ? n : 0), "{}", path_);
    DLRM_CHECK(block.dense.size() == n * static_cast<size_t>(layout_.dense), "{}", path_);
    DLRM_CHECK(!direct_ || samples_ + block.samples <= layout_.samples, "{}", path_);
    for (size_t f = 0; f < ids_.size(); ++f) {
      const BagColumn& bags = block.bags[f];
      const int64_t hotness = layout_.features[f].hotness;
      size_t expected = n * static_cast<size_t>(hotness);
      if (hotness == 0) {
        DLRM_CHECK(bags.lengths.size() == n, "{}", layout_.features[f].name);
        for (const int32_t length : bags.lengths) expected += static_cast<size_t>(length);
      }
      const bool narrow = layout_.features[f].ids == IdType::kInt32;
      DLRM_CHECK((narrow ? bags.ids.size() : bags.wide_ids.size()) == expected, "{}",
                 layout_.features[f].name);
      DLRM_CHECK(bags.weights.size() == (layout_.features[f].weighted ? expected : 0), "{}",
                 layout_.features[f].name);
    }
  }

  std::string path_;
  PartialFile partial_;
  DatasetLayout layout_;
  bool direct_ = false;
  bool finished_ = false;
  int64_t samples_ = 0;
  int64_t unwritten_ = 0;  // bytes since the disk last began to write; none with buffers
  std::optional<File> file_;
  std::optional<ColumnBuffers> buffers_;
  std::vector<File> spools_;
  std::vector<Extent> extents_;
  std::vector<int64_t> filled_;  // bytes written, per column
  std::vector<BlockSums> sums_;  // per column
  std::vector<int64_t>
      ids_;  // per feature; the number so far if it has offsets, otherwise the total
  std::vector<uint8_t> bytes_;
  std::vector<int64_t> offsets_;
};

DatasetWriter::DatasetWriter(const std::string& path, DatasetLayout layout, int64_t buffers)
    : impl_(std::make_unique<Impl>(path, std::move(layout), buffers)) {}
DatasetWriter::~DatasetWriter() = default;
void DatasetWriter::append(const DatasetBlock& block) { impl_->append(block); }
void DatasetWriter::set_rows(int64_t index, int64_t rows) { impl_->set_rows(index, rows); }
int64_t DatasetWriter::samples() const { return impl_->samples(); }
void DatasetWriter::finish() { impl_->finish(); }

}  // namespace dlrm
