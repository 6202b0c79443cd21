#include "sample_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <sys/mman.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"

namespace dlrm {
namespace {

/// Samples that are encoded together, so that their bytes stay in the processor's cache.
constexpr size_t kTile = 128;

int64_t offset_at(const MappedFeature& feature, int64_t sample) {
  int64_t value;
  std::memcpy(&value, feature.offsets + sample * 8, 8);
  return value;
}

/// Copies one element of `Width` bytes of each sample.
template <size_t Width>
void spread(const std::byte* column, size_t count, std::byte** at) {
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(at[i], column + i * Width, Width);
    at[i] += Width;
  }
}

void spread(const std::byte* column, size_t width, size_t count, std::byte** at) {
  if (width == 4) return spread<4>(column, count, at);
  if (width == 8) return spread<8>(column, count, at);
  if (width == 1) return spread<1>(column, count, at);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(at[i], column + i * width, width);
    at[i] += width;
  }
}

/// Bytes of an id with its weight.
size_t bytes_of_id(const FeatureColumn& feature) {
  return static_cast<size_t>(bytes_of(feature.ids)) + (feature.weighted ? sizeof(float) : 0);
}

template <class T>
const std::byte* bytes_at(const T* values) {
  return reinterpret_cast<const std::byte*>(values);
}

template <class T>
T take(const std::byte*& at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  at += sizeof(T);
  return value;
}

}  // namespace

void SampleSum::add(const EncodedSamples& samples) {
  for (size_t i = 0; i < samples.count(); ++i) {
    const Hash128 hash = hash128(samples.sample(i), samples.size(i));
    low += hash.low;
    high += hash.high;
  }
}

DatasetBlock DecodedBlock::view() const {
  DatasetBlock block;
  block.samples = samples;
  block.labels = labels;
  block.weights = weights;
  block.dense = dense;
  for (const Bags& feature : bags) {
    block.bags.push_back({feature.ids, feature.wide_ids, feature.lengths, feature.weights});
  }
  return block;
}

SampleCodec::SampleCodec(const Dataset& dataset) {
  const DatasetFile& first = *dataset.files().front();
  layout_.samples = dataset.samples();
  layout_.dense = first.dense_width();
  layout_.label = first.label_type();
  layout_.labels = first.num_labels();
  layout_.weighted = first.weighted();
  before_features_ =
      static_cast<size_t>(first.label_bytes() + (layout_.weighted ? 4 : 0) + 4 * layout_.dense);
  fixed_bytes_ = before_features_;
  for (size_t f = 0; f < first.features().size(); ++f) {
    const MappedFeature& feature = first.features()[f];
    FeatureColumn column{feature.name, feature.hotness, dataset.rows(feature.name), feature.type};
    column.count = 0;
    column.weighted = feature.weighted;
    for (const auto& file : dataset.files()) column.count += file->features()[f].count;
    const auto width = static_cast<int64_t>(bytes_of_id(column));
    fixed_bytes_ += static_cast<size_t>(feature.offsets ? 4 : width * feature.hotness);
    if (feature.offsets) total_bytes_ += column.count * width;
    varies_ |= feature.offsets != nullptr;
    layout_.features.push_back(column);
  }
  total_bytes_ += static_cast<int64_t>(fixed_bytes_) * layout_.samples;
}

void SampleCodec::measure(const DatasetFile& file, Range samples, EncodedSamples& out) const {
  out.starts.assign(static_cast<size_t>(samples.size()) + 1, fixed_bytes_);
  out.starts[0] = 0;
  for (const MappedFeature& feature : file.features()) {
    if (!feature.offsets) continue;
    int64_t begin = offset_at(feature, samples.begin);
    for (int64_t i = samples.begin; i < samples.end; ++i) {
      const int64_t end = offset_at(feature, i + 1);
      if (begin < 0 || end < begin || end > feature.count ||
          end - begin > std::numeric_limits<int32_t>::max()) {
        throw usage_error(
            "{}: record {} (counted from 0), feature {}: offsets {} to {}; they must rise and stay "
            "within {} ids",
            file.path(), i, feature.name, begin, end, feature.count);
      }
      out.starts[static_cast<size_t>(i - samples.begin) + 1] += static_cast<size_t>(
          (end - begin) * (bytes_of(feature.type) + (feature.weighted ? 4 : 0)));
      begin = end;
    }
  }
  for (size_t i = 1; i < out.starts.size(); ++i) out.starts[i] += out.starts[i - 1];
}

void SampleCodec::encode(const DatasetFile& file, Range samples, EncodedSamples& out) const {
  measure(file, samples, out);
  out.bytes.resize(out.starts.back());
  std::array<std::byte*, kTile> at;
  for (int64_t from = samples.begin; from < samples.end; from += kTile) {
    const auto n = static_cast<size_t>(std::min<int64_t>(kTile, samples.end - from));
    for (size_t i = 0; i < n; ++i) {
      at[i] = out.bytes.data() + out.starts[static_cast<size_t>(from - samples.begin) + i];
    }
    const int64_t label = file.label_bytes(), dense = 4 * layout_.dense;
    spread(file.labels() + from * label, static_cast<size_t>(label), n, at.data());
    if (layout_.weighted) spread<4>(file.weights() + from * 4, n, at.data());
    if (dense > 0) spread(file.dense() + from * dense, static_cast<size_t>(dense), n, at.data());
    for (const MappedFeature& feature : file.features()) {
      const int64_t width = bytes_of(feature.type);
      if (!feature.offsets) {
        const int64_t bag = width * feature.hotness;
        spread(feature.ids + from * bag, static_cast<size_t>(bag), n, at.data());
        const int64_t weights = 4 * feature.hotness;
        if (feature.weighted) {
          spread(feature.weights + from * weights, static_cast<size_t>(weights), n, at.data());
        }
        continue;
      }
      for (size_t i = 0; i < n; ++i) {
        const int64_t begin = offset_at(feature, from + static_cast<int64_t>(i));
        const int64_t end = offset_at(feature, from + static_cast<int64_t>(i) + 1);
        const auto length = static_cast<int32_t>(end - begin);
        const auto bytes = static_cast<size_t>((end - begin) * width);
        std::memcpy(at[i], &length, 4);
        if (bytes > 0) std::memcpy(at[i] + 4, feature.ids + begin * width, bytes);
        at[i] += 4 + bytes;
        if (!feature.weighted || bytes == 0) continue;
        const auto weights = static_cast<size_t>(4 * (end - begin));
        std::memcpy(at[i], feature.weights + begin * 4, weights);
        at[i] += weights;
      }
    }
  }
}

size_t SampleCodec::size_at(const std::byte* sample, const std::byte* end) const {
  const auto room = static_cast<size_t>(end - sample);
  if (!varies_ || room < fixed_bytes_) return room < fixed_bytes_ ? 0 : fixed_bytes_;
  size_t size = before_features_;
  for (const FeatureColumn& feature : layout_.features) {
    int64_t length = feature.hotness;
    if (length == 0) {
      if (room - size < 4) return 0;
      const std::byte* at = sample + size;
      length = take<int32_t>(at);
      size += 4;
    }
    const size_t width = bytes_of_id(feature);
    if (length < 0 || static_cast<size_t>(length) > (room - size) / width) return 0;
    size += static_cast<size_t>(length) * width;
  }
  return size;
}

/// Starts to bring a sample of average size into the cache: samples of a bucket lie in no order.
/// Uses assembly, because GCC drops calls of a function that contains only __builtin_prefetch.
void SampleCodec::request(const std::byte* sample) const {
  constexpr int64_t kLine = 64, kMost = 8 * kLine;
  const int64_t bytes = total_bytes_ / std::max<int64_t>(layout_.samples, 1);
  for (int64_t i = 0; i < std::min(bytes, kMost); i += kLine) {
    asm volatile("prefetcht1 %0" : : "m"(sample[i]));
  }
}

template <class Id>
void SampleCodec::decode_bags(size_t feature, const std::byte** at, size_t count,
                              std::vector<Id>& ids, DecodedBlock::Bags& bags) const {
  const int64_t hotness = layout_.features[feature].hotness;
  const bool weighted = layout_.features[feature].weighted;
  if (hotness == 1) {
    const size_t old = ids.size();
    ids.resize(old + count);
    for (size_t i = 0; i < count; ++i) ids[old + i] = take<Id>(at[i]);
    for (size_t i = 0; weighted && i < count; ++i) bags.weights.push_back(take<float>(at[i]));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t length = hotness > 0 ? hotness : take<int32_t>(at[i]);
    if (hotness == 0) bags.lengths.push_back(static_cast<int32_t>(length));
    if (length == 0) continue;
    const size_t old = ids.size();
    ids.resize(old + static_cast<size_t>(length));
    std::memcpy(ids.data() + old, at[i], static_cast<size_t>(length) * sizeof(Id));
    at[i] += static_cast<size_t>(length) * sizeof(Id);
    if (!weighted) continue;
    bags.weights.resize(old + static_cast<size_t>(length));
    std::memcpy(bags.weights.data() + old, at[i], static_cast<size_t>(length) * 4);
    at[i] += static_cast<size_t>(length) * 4;
  }
}

void SampleCodec::decode(const std::byte* const* begin, size_t count, DecodedBlock& out) const {
  const auto width = static_cast<size_t>(layout_.dense);
  const auto labels = static_cast<size_t>(layout_.labels);
  out.samples = static_cast<int64_t>(count);
  out.labels.resize(count * labels);
  out.weights.resize(layout_.weighted ? count : 0);
  out.dense.resize(count * width);
  out.bags.resize(layout_.features.size());
  for (DecodedBlock::Bags& bags : out.bags) {
    bags.ids.clear();
    bags.wide_ids.clear();
    bags.lengths.clear();
    bags.weights.clear();
  }
  std::array<const std::byte*, kTile> at;
  for (size_t from = 0; from < count; from += kTile) {
    const size_t n = std::min(kTile, count - from);
    std::copy(begin + from, begin + from + n, at.begin());
    for (size_t i = from + n; i < std::min(from + n + kTile, count); ++i) request(begin[i]);
    for (size_t i = 0; i < n; ++i) {
      for (size_t l = (from + i) * labels; l < (from + i + 1) * labels; ++l) {
        out.labels[l] = layout_.label == LabelType::kUint8
                            ? static_cast<float>(take<uint8_t>(at[i]))
                            : take<float>(at[i]);
      }
      if (layout_.weighted) out.weights[from + i] = take<float>(at[i]);
      if (width == 0) continue;
      std::memcpy(out.dense.data() + (from + i) * width, at[i], width * 4);
      at[i] += width * 4;
    }
    for (size_t f = 0; f < out.bags.size(); ++f) {
      DecodedBlock::Bags& bags = out.bags[f];
      if (layout_.features[f].ids == IdType::kInt32) {
        decode_bags(f, at.data(), n, bags.ids, bags);
      } else {
        decode_bags(f, at.data(), n, bags.wide_ids, bags);
      }
    }
  }
}

/// Sets the starts of a tile's samples.
void SampleCodec::measure(const DecodedBlock& block, size_t from, EncodedSamples& tile) const {
  for (size_t i = 1; i < tile.starts.size(); ++i) {
    size_t bytes = fixed_bytes_;
    for (size_t f = 0; varies_ && f < block.bags.size(); ++f) {
      if (layout_.features[f].hotness > 0) continue;
      const auto length = static_cast<size_t>(block.bags[f].lengths[from + i - 1]);
      bytes += length * bytes_of_id(layout_.features[f]);
    }
    tile.starts[i] = tile.starts[i - 1] + bytes;
  }
  tile.bytes.resize(tile.starts.back());
}

SampleSum SampleCodec::sum_of(const DecodedBlock& block) const {
  SampleSum sum;
  const auto count = static_cast<size_t>(block.samples);
  const auto labels = static_cast<size_t>(layout_.labels);
  const auto dense = static_cast<size_t>(layout_.dense) * 4;
  std::vector<const std::byte*> ids, weights;  // the next of each feature
  for (size_t f = 0; f < block.bags.size(); ++f) {
    const DecodedBlock::Bags& bags = block.bags[f];
    const bool narrow = layout_.features[f].ids == IdType::kInt32;
    ids.push_back(narrow ? bytes_at(bags.ids.data()) : bytes_at(bags.wide_ids.data()));
    weights.push_back(bytes_at(bags.weights.data()));
  }
  EncodedSamples tile;
  std::array<std::byte*, kTile> at;
  for (size_t from = 0; from < count; from += kTile) {
    const size_t n = std::min(kTile, count - from);
    tile.starts.assign(n + 1, 0);
    measure(block, from, tile);
    for (size_t i = 0; i < n; ++i) at[i] = tile.bytes.data() + tile.starts[i];
    if (layout_.label == LabelType::kUint8) {
      for (size_t l = 0; l < n * labels; ++l) {
        *at[l / labels]++ =
            static_cast<std::byte>(static_cast<uint8_t>(block.labels[from * labels + l]));
      }
    } else {
      spread(bytes_at(block.labels.data() + from * labels), 4 * labels, n, at.data());
    }
    if (layout_.weighted) spread<4>(bytes_at(block.weights.data() + from), n, at.data());
    if (dense > 0) spread(bytes_at(block.dense.data()) + from * dense, dense, n, at.data());
    for (size_t f = 0; f < block.bags.size(); ++f) {
      const auto width = static_cast<size_t>(bytes_of(layout_.features[f].ids));
      const int64_t hotness = layout_.features[f].hotness;
      const bool weighted = layout_.features[f].weighted;
      if (hotness > 0) {
        const size_t bag = width * static_cast<size_t>(hotness);
        spread(ids[f], bag, n, at.data());
        ids[f] += n * bag;
        const size_t weight_bag = 4 * static_cast<size_t>(hotness);
        if (weighted) spread(weights[f], weight_bag, n, at.data());
        weights[f] += weighted ? n * weight_bag : 0;
        continue;
      }
      for (size_t i = 0; i < n; ++i) {
        const int32_t length = block.bags[f].lengths[from + i];
        const size_t bytes = static_cast<size_t>(length) * width;
        std::memcpy(at[i], &length, 4);
        if (bytes > 0) std::memcpy(at[i] + 4, ids[f], bytes);
        at[i] += 4 + bytes;
        ids[f] += bytes;
        if (!weighted || length == 0) continue;
        const size_t of_weights = 4 * static_cast<size_t>(length);
        std::memcpy(at[i], weights[f], of_weights);
        at[i] += of_weights;
        weights[f] += of_weights;
      }
    }
    sum.add(tile);
  }
  return sum;
}

void advise_samples(const DatasetFile& file, Range samples, PageAdvice advice) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto advise = [&](const std::byte* column, int64_t begin, int64_t end) {
    if (column == nullptr || begin >= end) return;
    const bool drop = advice == PageAdvice::kDontNeed;
    // Pages that the range shares with others are needed, and are not dropped.
    const uintptr_t from =
        (reinterpret_cast<uintptr_t>(column + begin) + (drop ? page - 1 : 0)) & ~(page - 1);
    const auto to = reinterpret_cast<uintptr_t>(column + end);
    if (from >= to) return;
    const uintptr_t bytes = drop ? (to - from) & ~(page - 1) : to - from;
    if (bytes > 0)
      madvise(reinterpret_cast<void*>(from), bytes, drop ? MADV_DONTNEED : MADV_WILLNEED);
  };
  const int64_t label = file.label_bytes(), dense = 4 * file.dense_width();
  advise(file.labels(), samples.begin * label, samples.end * label);
  advise(file.weights(), samples.begin * 4, samples.end * 4);
  advise(file.dense(), samples.begin * dense, samples.end * dense);
  for (const MappedFeature& feature : file.features()) {
    const int64_t width = bytes_of(feature.type);
    if (!feature.offsets) {
      advise(feature.ids, samples.begin * width * feature.hotness,
             samples.end * width * feature.hotness);
      advise(feature.weights, samples.begin * 4 * feature.hotness,
             samples.end * 4 * feature.hotness);
      continue;
    }
    const int64_t begin = std::clamp<int64_t>(offset_at(feature, samples.begin), 0, feature.count);
    const int64_t end = std::clamp<int64_t>(offset_at(feature, samples.end), begin, feature.count);
    advise(feature.ids, begin * width, end * width);
    advise(feature.weights, begin * 4, end * 4);
    advise(feature.offsets, samples.begin * 8, samples.end * 8);
  }
}

}  // namespace dlrm
