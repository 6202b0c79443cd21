#include "synth_sink.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"
#include "dlrm/data/dataset_writer.h"

namespace dlrm {
namespace {

class TsvSink : public SynthSink {
 public:
  explicit TsvSink(const std::string& path) : path_(path), partial_(path) {
    file_ = File::try_open(partial_.name(), File::Mode::kCreate);
    if (!file_) throw usage_error("{}: cannot create: {}", path_, std::strerror(errno));
  }

  void encode(SynthBlock& block) const override {
    block.text.clear();
    append_criteo_lines(block.batch, block.criteo, block.from, block.to, block.text);
  }
  void write(const SynthBlock& block) override {
    file_->write(block.text.data(), block.text.size(), bytes_);
    bytes_ += static_cast<int64_t>(block.text.size());
  }
  void finish() override { partial_.publish(*file_); }

 private:
  std::string path_;
  PartialFile partial_;
  std::optional<File> file_;
};

DatasetLayout layout_of(const ModelConfig& model, int64_t samples) {
  DatasetLayout layout;
  layout.dense = model.dense_features;
  layout.labels = model.num_labels();
  layout.samples = samples;
  for (const TableConfig& table : model.tables) {
    const bool narrow = table.rows <= int64_t{std::numeric_limits<int32_t>::max()} + 1;
    for (const FeatureConfig& feature : table.features) {
      layout.features.push_back({feature.name, feature.hotness, table.rows,
                                 narrow ? IdType::kInt32 : IdType::kInt64, -1, feature.weights});
    }
  }
  return layout;
}

class DatasetSink : public SynthSink {
 public:
  DatasetSink(const std::string& path, const DatasetLayout& layout)
      : layout_(layout), writer_(path, layout) {}

  void encode(SynthBlock& block) const override {
    // The batch has them label by label, the file sample by sample.
    const auto labels = static_cast<size_t>(layout_.labels);
    const auto b = static_cast<size_t>(block.batch.size()), from = static_cast<size_t>(block.from);
    block.labels.resize(static_cast<size_t>(block.to - block.from) * labels);
    for (size_t k = 0; k < block.labels.size(); ++k) {
      block.labels[k] = block.batch.labels[k % labels * b + from + k / labels];
    }
    block.narrow.resize(layout_.features.size());
    for (size_t f = 0; f < layout_.features.size(); ++f) {
      if (layout_.features[f].ids != IdType::kInt32) continue;
      const View<const int64_t> ids = values_of(block, block.batch.ids, f);
      block.narrow[f].resize(ids.size());
      for (size_t k = 0; k < ids.size(); ++k) block.narrow[f][k] = static_cast<int32_t>(ids[k]);
    }
  }

  void write(const SynthBlock& block) override {
    DatasetBlock data;
    data.samples = block.to - block.from;
    const auto from = static_cast<size_t>(block.from), n = static_cast<size_t>(data.samples);
    const auto width = static_cast<size_t>(layout_.dense);
    data.labels = block.labels;
    data.dense = View<const float>(block.batch.dense).subspan(from * width, n * width);
    data.bags.resize(layout_.features.size());
    bytes_ += data.samples * (layout_.labels + 4 * layout_.dense);
    for (size_t f = 0; f < data.bags.size(); ++f) {
      const FeatureColumn& feature = layout_.features[f];
      if (feature.ids == IdType::kInt32) {
        data.bags[f].ids = block.narrow[f];
      } else {
        data.bags[f].wide_ids = values_of(block, block.batch.ids, f);
      }
      if (feature.weighted) data.bags[f].weights = values_of(block, block.batch.id_weights, f);
      const int64_t id = bytes_of(feature.ids) + (feature.weighted ? 4 : 0);
      bytes_ += data.samples * feature.hotness * id;
    }
    writer_.append(data);
  }

  void finish() override { writer_.finish(); }

 private:
  /// The part of `values`, one for each id, of the block's samples.
  template <class T>
  static View<const T> values_of(const SynthBlock& block, const std::vector<T>& values,
                                 size_t feature) {
    const auto b = static_cast<size_t>(block.batch.size());
    const auto begin = block.batch.offsets[feature * b + static_cast<size_t>(block.from)];
    const auto end = block.batch.offsets[feature * b + static_cast<size_t>(block.to)];
    return View<const T>(values).subspan(static_cast<size_t>(begin),
                                         static_cast<size_t>(end - begin));
  }

  DatasetLayout layout_;
  DatasetWriter writer_;
};

}  // namespace

std::unique_ptr<SynthSink> make_tsv_sink(const std::string& path) {
  return std::make_unique<TsvSink>(path);
}

std::unique_ptr<SynthSink> make_dataset_sink(const std::string& path, const ModelConfig& model,
                                             int64_t samples) {
  return std::make_unique<DatasetSink>(path, layout_of(model, samples));
}

}  // namespace dlrm
