#include "parquet_source.h"

#include <algorithm>

#include "dlrm/core/error.h"
#include "dlrm/core/nearest.h"

#include "column_access.h"
#include "shown_paths.h"

namespace dlrm {

ParquetSource::ParquetSource(const RunConfig& config, const std::vector<std::string>& paths,
                             bool training, int rank, int world)
    : config_(config),
      paths_(paths),
      rank_(rank),
      world_(world),
      groups_(std::make_unique<SampleGroups>(config.data.schema, config.data.dictionary, paths)) {
  const GroupsHeader& header = groups_->header();
  for (const int64_t rows : header.rows) starts_.push_back(starts_.back() + rows);
  if (starts_.back() == 0) throw usage_error("{}: holds no samples", shown_paths(paths));
  plan_ = {starts_.back(), config.train.global_batch_size};
  order_ = std::make_unique<EpochOrder>(block_starts(), training && config.data.shuffle,
                                        config.train.seed);
  const int64_t steps = training ? config.train.steps : 0, batches = plan_.batches_per_epoch();
  epochs_ = steps > 0 ? (steps + batches - 1) / batches : training ? config.train.epochs : 1;
  const ModelConfig& model = config.model;
  if (header.dense != model.dense_features) {
    throw usage_error("{}: `dense` has {} columns, model.dense_features is {}", config.data.schema,
                      header.dense, model.dense_features);
  }
  if (header.labels != model.num_labels()) {
    throw usage_error("{}: `label` has {} column{}, and the model {}: needs model.tasks{}",
                      config.data.schema, header.labels, header.labels == 1 ? "" : "s",
                      model.num_labels(),
                      header.labels == 1 ? " to be left out" : " with a task for each");
  }
  for (const TableConfig& table : model.tables) {
    for (const FeatureConfig& feature : table.features) add_column(table, feature);
  }
}

void ParquetSource::add_column(const TableConfig& table, const FeatureConfig& feature) {
  const auto& known = groups_->header().features;
  const auto found =
      std::ranges::find_if(known, [&](const auto& other) { return other.name == feature.name; });
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const auto& other : known) names.push_back(other.name);
    throw usage_error("{}: there is no feature {} (of table {}); {}", config_.data.schema,
                      feature.name, table.name, hint_for(feature.name, names));
  }
  if (found->rows > table.rows) {
    throw usage_error("{}: feature {} has {} rows, table {} of the config only {}",
                      config_.data.schema, feature.name, found->rows, table.name, table.rows);
  }
  if (!found->lists && feature.hotness != 1) {
    throw usage_error("{}: feature {} has one value a record, the config says hotness {}",
                      config_.data.schema, feature.name, feature.hotness);
  }
  columns_.push_back({feature.name, static_cast<size_t>(found - known.begin()), table.rows,
                      found->bytes == sizeof(int64_t)});
}

/// The first sample of each block of row groups, and the end.
std::vector<int64_t> ParquetSource::block_starts() const {
  std::vector<int64_t> blocks{0};
  for (size_t g = 1; g < starts_.size(); ++g) {
    if (starts_[g] - blocks.back() >= EpochOrder::kBlock || g + 1 == starts_.size()) {
      blocks.push_back(starts_[g]);
    }
  }
  return blocks;
}

size_t ParquetSource::group_of(int64_t sample) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), sample);
  return static_cast<size_t>(after - starts_.begin()) - 1;
}

std::vector<int64_t> ParquetSource::groups_of(int64_t epoch, int64_t window) const {
  std::vector<int64_t> groups;
  for (const Range& samples : order_->ranges_of(epoch, window)) {
    for (size_t g = group_of(samples.begin); starts_[g] < samples.end; ++g) {
      groups.push_back(static_cast<int64_t>(g));
    }
  }
  return groups;
}

void ParquetSource::find_places(const Batch& batch, Range positions, Scratch& scratch) const {
  const auto b = static_cast<size_t>(batch.size());
  scratch.samples.resize(b);
  scratch.places.resize(b);
  scratch.numbers.clear();
  order_->samples_at(batch.epoch, positions, scratch.samples);
  for (size_t i = 0; i < b; ++i) {
    const size_t group = group_of(scratch.samples[i]);
    scratch.places[i] = {group, scratch.samples[i] - starts_[group]};
    scratch.numbers.push_back(static_cast<int64_t>(group));
  }
  std::sort(scratch.numbers.begin(), scratch.numbers.end());
  scratch.numbers.erase(std::unique(scratch.numbers.begin(), scratch.numbers.end()),
                        scratch.numbers.end());
  for (Place& place : scratch.places) {
    const auto found = std::lower_bound(scratch.numbers.begin(), scratch.numbers.end(),
                                        static_cast<int64_t>(place.group));
    place.group = static_cast<size_t>(found - scratch.numbers.begin());
  }
}

void ParquetSource::load(int64_t t, Batch& batch) const {
  const Range positions = plan_.start_batch(t, rank_, world_, batch);
  std::unique_ptr<Scratch> scratch = scratch_.take();
  find_places(batch, positions, *scratch);
  scratch->groups = groups_->get(scratch->numbers);
  gather(*scratch, batch);
  scratch->groups.clear();
  scratch_.give_back(std::move(scratch));
}

void ParquetSource::gather(const Scratch& scratch, Batch& batch) const {
  const GroupsHeader& header = groups_->header();
  const size_t b = scratch.places.size();
  const auto labels = static_cast<size_t>(header.labels), n = static_cast<size_t>(header.dense);
  batch.labels.resize(labels * b);
  batch.weights.resize(header.weighted ? b : 0);
  batch.dense.resize(n * b);
  batch.id_weights.clear();
  const auto dense_of = [&](const Place& place) {
    return scratch.groups[place.group]->dense + static_cast<size_t>(place.sample) * n;
  };
  for (size_t i = 0; i < b; ++i) {
    const Place place = scratch.places[i];
    if (i + kAhead < b) {
      request(reinterpret_cast<const std::byte*>(dense_of(scratch.places[i + kAhead])),
              static_cast<int64_t>(4 * n));
    }
    const SampleGroup& group = *scratch.groups[place.group];
    const auto sample = static_cast<size_t>(place.sample);
    for (size_t l = 0; l < labels; ++l) batch.labels[l * b + i] = group.labels[sample * labels + l];
    if (header.weighted) batch.weights[i] = group.weights[sample];
    std::copy_n(dense_of(place), n, batch.dense.data() + i * n);
  }
  batch.offsets.assign(1, 0);
  batch.ids.clear();
  for (size_t f = 0; f < columns_.size(); ++f) {
    if (columns_[f].wide) {
      gather_ids<int64_t>(scratch, f, batch);
    } else {
      gather_ids<int32_t>(scratch, f, batch);
    }
  }
}

template <class Id>
void ParquetSource::gather_ids(const Scratch& scratch, size_t feature, Batch& batch) const {
  const Column& column = columns_[feature];
  const size_t b = scratch.places.size();
  std::vector<SampleGroup::Feature> groups;
  for (const auto& group : scratch.groups) groups.push_back(group->features[column.place]);
  const auto ids_of = [&](const Place& place) {
    const SampleGroup::Feature& from = groups[place.group];
    const int64_t begin = from.offsets != nullptr ? from.offsets[place.sample] : place.sample;
    const int64_t end = from.offsets != nullptr ? from.offsets[place.sample + 1] : begin + 1;
    return Range{begin, end};
  };
  for (size_t i = 0; i < b; ++i) {
    if (i + kAhead < b) {
      const Place& later = scratch.places[i + kAhead];
      const Range range = ids_of(later);
      request(groups[later.group].ids + range.begin * static_cast<int64_t>(sizeof(Id)),
              range.size() * static_cast<int64_t>(sizeof(Id)));
    }
    const Place& place = scratch.places[i];
    const Range range = ids_of(place);
    for (int64_t k = range.begin; k < range.end; ++k) {
      const auto id = element<Id>(groups[place.group].ids, k);
      if (static_cast<uint64_t>(id) < static_cast<uint64_t>(column.rows)) {
        batch.ids.push_back(id);
        continue;
      }
      if (config_.data.invalid_id == InvalidId::kError) refuse(scratch, feature, i, id);
      ++batch.dropped;
    }
    batch.offsets.push_back(std::ssize(batch.ids));
  }
}

void ParquetSource::refuse(const Scratch& scratch, size_t feature, size_t sample,
                           int64_t id) const {
  const Column& column = columns_[feature];
  const GroupsHeader& header = groups_->header();
  const Place place = scratch.places[sample];
  const auto group = static_cast<size_t>(scratch.numbers[place.group]);
  throw usage_error(
      "{}, record {}: feature {}: id {} is not in [0, {}) (data.invalid_id: drop leaves such ids "
      "out)",
      header.files[static_cast<size_t>(header.file_of[group])], header.first[group] + place.sample,
      column.name, id, column.rows);
}

/// Reads the row groups of the next window while this one is used, at the same pace.
void ParquetSource::will_need(int64_t t) const {
  const int64_t epoch = plan_.epoch_of(t), position = plan_.samples_of(t).begin;
  const int64_t window = order_->window_of(epoch, position);
  // Other workers may be so many batches behind.
  const int64_t behind = std::max<int64_t>(0, t - config_.data.prefetch - config_.data.workers);
  const int64_t before = plan_.epoch_of(behind);
  std::vector<int64_t> kept =
      groups_of(before, order_->window_of(before, plan_.samples_of(behind).begin));
  const Range positions = order_->positions_of(epoch, window);
  const bool last = window + 1 == order_->windows(epoch);
  std::vector<int64_t> next;
  if (!last || epoch + 1 < epochs_) {
    next = groups_of(last ? epoch + 1 : epoch, last ? 0 : window + 1);
  }
  for (const auto& more : {groups_of(epoch, window), next}) {
    kept.insert(kept.end(), more.begin(), more.end());
  }
  std::sort(kept.begin(), kept.end());
  groups_->keep(kept);
  order_->prepare(epoch, window);
  const int64_t done = position + plan_.batch_size - positions.begin;
  const int64_t due = std::min<int64_t>(
      std::ssize(next), std::ssize(next) * done / std::max<int64_t>(1, positions.size()));
  for (int64_t i = 0; i < due; ++i) groups_->prepare(next[static_cast<size_t>(i)]);
}

std::string ParquetSource::describe() const {
  const size_t files = groups_->header().files.size();
  return fmt::format("{}: {} samples of {} row groups{}", shown_paths(paths_), plan_.samples,
                     starts_.size() - 1, files > 1 ? fmt::format(" in {} files", files) : "");
}

}  // namespace dlrm
