#include <algorithm>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/nearest.h"

#include "hdf5_source.h"
#include "shown_paths.h"

namespace dlrm {

Hdf5Source::Hdf5Source(const ModelConfig& model, const Hdf5SourceOptions& options)
    : dataset_(options.paths),
      options_(options),
      plan_{dataset_.samples(), options.batch_size},
      order_(dataset_.samples(), options.shuffle, options.seed),
      verifier_(make_verifier(model)),
      tasks_(model.task_names()),
      dense_width_(model.dense_features) {
  if (dataset_.samples() == 0)
    throw usage_error("{}: holds no samples", shown_paths(options_.paths));
  const DatasetFile& first = *dataset_.files().front();
  if (first.dense_width() != model.dense_features) {
    throw usage_error("{}: /dense has {} numbers a sample, model.dense_features is {}",
                      first.path(), first.dense_width(), model.dense_features);
  }
  if (first.num_labels() != model.num_labels()) {
    throw usage_error("{}: /label has {} label{} a sample, and the model {}: needs model.tasks{}",
                      first.path(), first.num_labels(), first.num_labels() == 1 ? "" : "s",
                      model.num_labels(),
                      first.num_labels() == 1 ? " to be left out" : " with a task for each");
  }
  for (const auto& file : dataset_.files()) {
    labels_.push_back(file->labels());
    weights_.push_back(file->weights());
    dense_.push_back(file->dense());
  }
  for (const TableConfig& table : model.tables) {
    for (const FeatureConfig& feature : table.features) add_column(table, feature);
  }
  std::vector<std::string> features;
  for (const Column& column : columns_) features.push_back(column.name);
  preprocessing_ = dataset_.preprocessing(features);
}

/// Verifies what the config uses. Features that files lack are reported later.
BlockVerifier Hdf5Source::make_verifier(const ModelConfig& model) const {
  std::vector<std::vector<size_t>> features(dataset_.files().size());
  for (size_t f = 0; f < features.size(); ++f) {
    const DatasetFile& file = *dataset_.files()[f];
    for (const TableConfig& table : model.tables) {
      for (const FeatureConfig& feature : table.features) {
        const MappedFeature* found = file.find(feature.name);
        if (found) features[f].push_back(static_cast<size_t>(found - file.features().data()));
      }
    }
  }
  return {dataset_, std::move(features)};
}

void Hdf5Source::add_column(const TableConfig& table, const FeatureConfig& feature) {
  Column column;
  column.name = feature.name;
  for (const auto& file : dataset_.files()) {
    const MappedFeature* found = file->find(feature.name);
    if (!found) {
      throw usage_error("{}: there is no feature {} (of table {}); {}", file->path(), feature.name,
                        table.name, hint_for(feature.name, names_in_file()));
    }
    if (found->rows > table.rows) {
      throw usage_error("{}: feature {} has {} rows, table {} of the config only {}", file->path(),
                        feature.name, found->rows, table.name, table.rows);
    }
    if (found->hotness != 0 && found->hotness != feature.hotness) {
      throw usage_error("{}: feature {} has hotness {}, the config says {}", file->path(),
                        feature.name, found->hotness, feature.hotness);
    }
    if (feature.weights) {
      if (!found->weighted) {
        throw usage_error(
            "{}: feature {} has no weights (/sparse/{}/weights), the config asks for "
            "them",
            file->path(), feature.name, feature.name);
      }
      column.weights.push_back(found->weights);
    }
    column.hotness = found->hotness;
    column.type = found->type;
    column.ids.push_back(found->ids);
    column.offsets.push_back(found->offsets);
    column.counts.push_back(found->count);
  }
  column.rows = dataset_.rows(feature.name);
  columns_.push_back(std::move(column));
}

std::vector<std::string> Hdf5Source::names_in_file() const {
  std::vector<std::string> names;
  for (const MappedFeature& f : dataset_.files().front()->features()) names.push_back(f.name);
  return names;
}

std::string Hdf5Source::describe() const {
  const size_t files = dataset_.files().size();
  return fmt::format("{}: {} samples{}", shown_paths(options_.paths), dataset_.samples(),
                     files > 1 ? fmt::format(" in {} files", files) : "");
}

void Hdf5Source::will_need(int64_t t) const {
  const int64_t epoch = plan_.epoch_of(t);
  const int64_t windows = order_.windows(epoch);
  const int64_t now = epoch * windows + order_.window_of(epoch, plan_.samples_of(t).begin);
  for (const int64_t window : {now, now + 1}) {
    {
      // Workers that are in two windows must not request them again and again.
      const std::lock_guard lock(mutex_);
      if (!advised_.add(window)) continue;
    }
    advise(window / windows, window % windows);
  }
}

void Hdf5Source::advise(int64_t epoch, int64_t window) const {
  order_.prepare(epoch, window);
  for (const Range& samples : order_.ranges_of(epoch, window)) advise_samples(samples);
}

void Hdf5Source::advise_samples(Range samples) const {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  const auto advise = [](const std::byte* column, int64_t begin, int64_t end) {
    if (column == nullptr || begin >= end) return;
    const auto address = reinterpret_cast<uintptr_t>(column + begin);
    const uintptr_t aligned = address & ~static_cast<uintptr_t>(page - 1);
    madvise(reinterpret_cast<void*>(aligned),
            static_cast<size_t>(end - begin) + (address - aligned), MADV_WILLNEED);
  };
  const std::vector<int64_t>& starts = dataset_.starts();
  for (size_t f = 0; f + 1 < starts.size(); ++f) {
    const int64_t begin = std::max(samples.begin, starts[f]) - starts[f];
    const int64_t end = std::min(samples.end, starts[f + 1]) - starts[f];
    if (begin >= end) continue;
    const int64_t label_bytes = dataset_.files()[f]->label_bytes();
    advise(labels_[f], begin * label_bytes, end * label_bytes);
    advise(weights_[f], begin * 4, end * 4);
    advise(dense_[f], begin * dense_width_ * 4, end * dense_width_ * 4);
    for (const Column& column : columns_) {
      const int64_t width = bytes_of(column.type) * column.hotness;
      advise(column.ids[f], begin * width, end * width);
      if (!column.weights.empty()) {
        advise(column.weights[f], begin * 4 * column.hotness, end * 4 * column.hotness);
      }
      // Leaves the ids of bags with offsets to the kernel's readahead.
      advise(column.offsets[f], begin * 8, (end + 1) * 8);
    }
  }
}

}  // namespace dlrm
