#include "inspect.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include <sys/mman.h>

#include "dlrm/core/error.h"
#include "dlrm/data/dataset_file.h"
#include "dlrm/encode/preprocessing.h"

namespace dlrm {
namespace {

// If a feature has more rows, occurrences of its ids are not counted. Counting takes 4 bytes per
// row.
constexpr int64_t kCountedRows = int64_t{1} << 28;

template <class T>
T element(const std::byte* column, int64_t index) {
  T value;
  std::memcpy(&value, column + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

std::string record(const DatasetFile& file, int64_t index) {
  return fmt::format("{}: record {} (counted from 0)", file.path(), index);
}

/// Adds the sums of the labels. Of several a NaN is one that is missing.
void add_labels(const DatasetFile& file, std::vector<LabelStatistics>& sums) {
  const auto count = static_cast<size_t>(file.num_labels());
  for (int64_t i = 0; i < file.samples(); ++i) {
    for (size_t l = 0; l < count; ++l) {
      const int64_t at = i * file.num_labels() + static_cast<int64_t>(l);
      const float label = file.label_type() == LabelType::kUint8
                              ? static_cast<float>(element<uint8_t>(file.labels(), at))
                              : element<float>(file.labels(), at);
      if (count > 1 && std::isnan(label)) {
        ++sums[l].missing;
        continue;
      }
      if (!(label >= 0.0f && label <= 1.0f)) {
        throw usage_error("{}: label {}; labels are 0, 1 or between", record(file, i), label);
      }
      sums[l].mean += static_cast<double>(label);
    }
  }
}

/// Turns the sums of labels into means.
void finish_labels(std::vector<LabelStatistics> sums, Inspection& out) {
  int64_t all = 0;
  for (LabelStatistics& label : sums) {
    const int64_t there = out.samples - label.missing;
    out.label_mean += label.mean;
    label.mean /= static_cast<double>(std::max<int64_t>(there, 1));
    all += there;
  }
  out.label_mean /= static_cast<double>(std::max<int64_t>(all, 1));
  if (sums.size() > 1) out.labels = std::move(sums);
}

void add_weights(const DatasetFile& file, Inspection& out) {
  for (int64_t i = 0; i < file.samples(); ++i) {
    const auto weight = element<float>(file.weights(), i);
    if (!(weight >= 0 && std::isfinite(weight))) {
      throw usage_error("{}: weight {}; a weight is a finite number of at least 0", record(file, i),
                        weight);
    }
    out.weight_min = std::min(out.weight_min, weight);
    out.weight_max = std::max(out.weight_max, weight);
    out.weight_mean += static_cast<double>(weight);
  }
}

void add_dense(const DatasetFile& file, Inspection& out) {
  const auto n = static_cast<size_t>(file.dense_width());
  for (int64_t i = 0; i < file.samples(); ++i) {
    for (size_t c = 0; c < n; ++c) {
      const auto value =
          element<float>(file.dense(), i * file.dense_width() + static_cast<int64_t>(c));
      if (!std::isfinite(value)) {
        throw usage_error("{}, column {} of /dense: {} is not a finite number", record(file, i), c,
                          value);
      }
      out.dense_min[c] = std::min(out.dense_min[c], value);
      out.dense_max[c] = std::max(out.dense_max[c], value);
      out.dense_mean[c] += static_cast<double>(value);
    }
  }
}

/// Checks a file's bags of one feature and adds them to the statistics.
class BagScan {
 public:
  BagScan(FeatureStatistics& out, std::vector<uint32_t>& counts) : out_(out), counts_(counts) {}

  void scan(const DatasetFile& file, const MappedFeature& feature) {
    int64_t begin = 0;
    for (int64_t i = 0; i < file.samples(); ++i) {
      const int64_t end =
          feature.offsets ? element<int64_t>(feature.offsets, i + 1) : begin + feature.hotness;
      if (end < begin || end > feature.count) {
        throw usage_error("{}, feature {}: offsets {} to {}; they must rise and stay within {} ids",
                          record(file, i), feature.name, begin, end, feature.count);
      }
      out_.longest_bag = std::max(out_.longest_bag, end - begin);
      out_.empty_bags += end == begin;
      for (int64_t k = begin; k < end; ++k) add(file, feature, i, k);
      begin = end;
    }
    out_.ids += feature.count;
  }

 private:
  void add(const DatasetFile& file, const MappedFeature& feature, int64_t i, int64_t k) {
    const int64_t id = feature.type == IdType::kInt32 ? element<int32_t>(feature.ids, k)
                                                      : element<int64_t>(feature.ids, k);
    if (id < 0 || id >= feature.rows) {
      throw usage_error("{}, feature {}: id {} is not in [0, {})", record(file, i), feature.name,
                        id, feature.rows);
    }
    out_.largest_id = std::max(out_.largest_id, id);
    if (!counts_.empty()) ++counts_[static_cast<size_t>(id)];
    if (feature.weighted) add_weight(file, feature, i, element<float>(feature.weights, k));
  }

  void add_weight(const DatasetFile& file, const MappedFeature& feature, int64_t i, float weight) {
    if (!std::isfinite(weight)) {
      throw usage_error("{}, feature {}: weight {} of an id is not a finite number",
                        record(file, i), feature.name, weight);
    }
    out_.weight_min = std::min(out_.weight_min, weight);
    out_.weight_max = std::max(out_.weight_max, weight);
    out_.weight_mean += static_cast<double>(weight);
  }

  FeatureStatistics& out_;
  std::vector<uint32_t>& counts_;
};

void count_distinct(std::vector<uint32_t>& counts, FeatureStatistics& out) {
  if (counts.empty() || out.ids == 0) return;
  out.distinct = static_cast<int64_t>(counts.size()) - std::count(counts.begin(), counts.end(), 0u);
  const size_t top = std::min<size_t>(100, counts.size());
  std::partial_sort(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(top), counts.end(),
                    std::greater<>());
  double sum = 0;
  for (size_t k = 0; k < top; ++k) sum += counts[k];
  out.top_share = counts[0] / static_cast<double>(out.ids);
  out.top_hundred = sum / static_cast<double>(out.ids);
}

FeatureStatistics inspect_feature(const Dataset& dataset, const std::string& name) {
  FeatureStatistics out;
  out.name = name;
  out.rows = dataset.rows(name);
  out.weight_min = std::numeric_limits<float>::infinity();
  out.weight_max = -std::numeric_limits<float>::infinity();
  std::vector<uint32_t> counts(out.rows <= kCountedRows ? static_cast<size_t>(out.rows) : 0);
  for (const auto& file : dataset.files()) {
    const MappedFeature& feature = *file->find(name);
    out.hotness = feature.hotness;
    out.weighted = feature.weighted;
    BagScan(out, counts).scan(*file, feature);
  }
  if (out.ids > 0) out.weight_mean /= static_cast<double>(out.ids);
  count_distinct(counts, out);
  return out;
}

/// A sort key that places C2 before C10. It pads all numbers to the same length.
std::string natural_key(const std::string& name) {
  constexpr size_t kDigits = 20;
  std::string key, digits;
  const auto end_number = [&] {
    if (!digits.empty()) key.append(kDigits - std::min(kDigits, digits.size()), '0');
    key += digits;
    digits.clear();
  };
  for (const char c : name) {
    if (c >= '0' && c <= '9') {
      digits += c;
      continue;
    }
    end_number();
    key += c;
  }
  end_number();
  return key;
}

/// Compares every block with its checksum.
void verify(const DatasetFile& file) {
  std::vector<size_t> features(file.features().size());
  std::iota(features.begin(), features.end(), size_t{0});
  for (int64_t block = 0; block < file.blocks(); ++block) file.verify(block, features);
}

Inspection inspect(const Dataset& dataset, const std::string& path) {
  const DatasetFile& first = *dataset.files().front();
  Inspection out;
  out.path = path;
  out.files = static_cast<int64_t>(dataset.files().size());
  out.samples = dataset.samples();
  out.weighted = first.weighted();
  out.weight_min = std::numeric_limits<float>::infinity();
  const auto width = static_cast<size_t>(first.dense_width());
  out.dense_min.assign(width, std::numeric_limits<float>::infinity());
  out.dense_max.assign(width, -std::numeric_limits<float>::infinity());
  out.dense_mean.assign(width, 0.0);
  std::vector<LabelStatistics> labels(static_cast<size_t>(first.num_labels()));
  for (const auto& file : dataset.files()) {
    verify(*file);
    out.files_with_checksums += file->checksum_samples() > 0;
    add_labels(*file, labels);
    if (out.weighted) add_weights(*file, out);
    add_dense(*file, out);
  }
  if (const auto [file, bytes] = dataset.preprocessing(); !bytes.empty()) {
    out.preprocessing = describe(parse_preprocessing(bytes, file + ": /preprocessing"));
  }
  const auto samples = static_cast<double>(std::max<int64_t>(out.samples, 1));
  finish_labels(std::move(labels), out);
  out.weight_mean /= samples;
  for (double& mean : out.dense_mean) mean /= samples;
  for (const MappedFeature& feature : first.features()) {
    out.features.push_back(inspect_feature(dataset, feature.name));
  }
  std::sort(out.features.begin(), out.features.end(),
            [](const FeatureStatistics& a, const FeatureStatistics& b) {
              return natural_key(a.name) < natural_key(b.name);
            });
  return out;
}

}  // namespace

Inspection inspect_dataset(const std::string& path) {
  const Dataset dataset(path);
  const auto check_whole = [&] {
    for (const auto& file : dataset.files()) file->check_whole();
  };
  try {
    Inspection out = inspect(dataset, path);
    check_whole();
    return out;
  } catch (const Error&) {
    // A file that was cut short has zeros in the place of values.
    check_whole();
    throw;
  }
}

std::string describe_inspection(const Inspection& in) {
  std::string text = fmt::format("{}: {} samples in {} file{}, label mean {:.6f}\n", in.path,
                                 in.samples, in.files, in.files == 1 ? "" : "s", in.label_mean);
  text += fmt::format("checksums: {}\n", in.files_with_checksums == in.files ? "verified"
                                         : in.files_with_checksums == 0      ? "none"
                                                                        : "none in some files");
  for (size_t l = 0; l < in.labels.size() && in.samples > 0; ++l) {
    text += fmt::format("label {:<3} mean {:<11.6f} missing {}\n", l, in.labels[l].mean,
                        in.labels[l].missing);
  }
  if (in.weighted && in.samples > 0) {
    text += fmt::format("weight    min {:<12g} max {:<12g} mean {:g}\n", in.weight_min,
                        in.weight_max, in.weight_mean);
  }
  for (size_t c = 0; c < in.dense_mean.size() && in.samples > 0; ++c) {
    text += fmt::format("dense {:<3} min {:<12g} max {:<12g} mean {:g}\n", c, in.dense_min[c],
                        in.dense_max[c], in.dense_mean[c]);
  }
  if (!in.features.empty()) {
    text += fmt::format("{:<24} {:>12} {:>8} {:>9} {:>7} {:>12} {:>12} {:>7} {:>7}\n", "feature",
                        "rows", "ids/bag", "longest", "empty", "largest id", "distinct", "top 1",
                        "top 100");
  }
  for (const FeatureStatistics& f : in.features) {
    const double mean =
        static_cast<double>(f.ids) / static_cast<double>(std::max<int64_t>(in.samples, 1));
    text += fmt::format("{:<24} {:>12} {:>8.2f} {:>9} {:>7} {:>12} {:>12} {:>7.4f} {:>7.4f}\n",
                        f.name, f.rows, mean, f.longest_bag, f.empty_bags, f.largest_id,
                        f.distinct < 0 ? "not counted" : std::to_string(f.distinct), f.top_share,
                        f.top_hundred);
  }
  for (const FeatureStatistics& f : in.features) {
    if (!f.weighted || f.ids == 0) continue;
    text += fmt::format("weights of {:<16} min {:<12g} max {:<12g} mean {:g}\n", f.name,
                        f.weight_min, f.weight_max, f.weight_mean);
  }
  return text + in.preprocessing + "good\n";
}

}  // namespace dlrm
