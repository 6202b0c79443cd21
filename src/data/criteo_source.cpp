#include "criteo_source.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"

#include "shown_paths.h"

namespace dlrm {

CriteoSource::CriteoSource(const RunConfig& config, const std::vector<std::string>& paths, int rank,
                           int world, const CriteoSource* same_text)
    : paths_(paths), rank_(rank), world_(world) {
  if (config.model.dense_features != static_cast<int64_t>(kCriteoNumbers)) {
    throw usage_error("data.source is criteo, whose text has {} numbers a sample: {} {}",
                      kCriteoNumbers, "model.dense_features is", config.model.dense_features);
  }
  for (const TableConfig& table : config.model.tables) {
    for (const FeatureConfig& feature : table.features) add_column(table, feature);
  }
  // Workers are at most data.prefetch batches apart.
  const int64_t kept = (config.data.prefetch + 1) * config.train.global_batch_size;
  if (same_text) {
    files_ = same_text->files_;
    for (const auto& file : files_) file->keep(kept);
  } else {
    open(paths, config.data.workers, kept);
  }
  for (const auto& file : files_) starts_.push_back(starts_.back() + file->lines());
  plan_ = {starts_.back(), config.train.global_batch_size};
}

void CriteoSource::add_column(const TableConfig& table, const FeatureConfig& feature) {
  size_t category = 0;
  while (category < kCriteoCategories && criteo_feature_name(category) != feature.name) ++category;
  if (category == kCriteoCategories) {
    throw usage_error(
        "data.source is criteo, whose text has the features C1 to C{}: there is no {} (of table "
        "{})",
        kCriteoCategories, feature.name, table.name);
  }
  if (feature.hotness != 1) {
    throw usage_error(
        "data.source is criteo, whose text has one value per feature: the hotness of {} is {}",
        feature.name, feature.hotness);
  }
  columns_.push_back({category, table.rows});
}

/// Indexes the files on as many threads as read batches.
void CriteoSource::open(const std::vector<std::string>& paths, int workers, int64_t kept) {
  files_.resize(paths.size());
  std::vector<std::exception_ptr> errors(paths.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t f; (f = next++) < paths.size();) {
      try {
        files_[f] = std::make_shared<IndexedText>(paths[f], kept);
      } catch (...) {
        errors[f] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t helpers = std::min(static_cast<size_t>(std::max(workers, 1)), paths.size()) - 1;
  try {
    while (threads.size() < helpers) threads.push_back(background_thread(work));
  } catch (const std::system_error&) {
    // Fewer threads index the same files.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void CriteoSource::load(int64_t t, Batch& batch) const {
  const Range samples = plan_.start_batch(t, rank_, world_, batch);
  std::unique_ptr<Scratch> scratch = scratch_.take();
  scratch->text.size = 0;
  read_lines(samples, scratch->text);
  parse_criteo(scratch->text, scratch->rows);
  if (scratch->rows.malformed) {
    report(samples.begin + scratch->rows.malformed->line - 1, scratch->rows.malformed->reason);
  }
  fill(scratch->rows, batch);
  scratch_.give_back(std::move(scratch));
}

void CriteoSource::read_lines(Range samples, TextChunk& text) const {
  for (int64_t at = samples.begin; at < samples.end;) {
    const size_t f = file_of(at);
    const int64_t end = std::min(samples.end, starts_[f + 1]);
    files_[f]->read(at - starts_[f], end - starts_[f], text);
    at = end;
  }
}

void CriteoSource::fill(const CriteoBlock& rows, Batch& batch) const {
  const auto b = static_cast<size_t>(batch.size());
  batch.labels.assign(rows.labels.begin(), rows.labels.begin() + batch.size());
  const auto numbers = static_cast<std::ptrdiff_t>(b * kCriteoNumbers);
  batch.dense.assign(rows.dense.begin(), rows.dense.begin() + numbers);
  batch.ids.resize(columns_.size() * b);
  batch.offsets.resize(columns_.size() * b + 1);
  int64_t* ids = batch.ids.data();
  for (const Column& column : columns_) {
    const CategoryValue* const values = rows.values[column.category].data();
    for (size_t i = 0; i < b; ++i) *ids++ = hashed_id(values[i], column.rows);
  }
  for (size_t i = 0; i < batch.offsets.size(); ++i) batch.offsets[i] = static_cast<int64_t>(i);
}

size_t CriteoSource::file_of(int64_t sample) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), sample);
  return static_cast<size_t>(after - starts_.begin()) - 1;
}

void CriteoSource::report(int64_t sample, const std::string& reason) const {
  const size_t f = file_of(sample);
  throw usage_error("{}:{}: {} (dlrm-data criteo --skip-malformed leaves such lines out)",
                    files_[f]->path(), sample - starts_[f] + 1, reason);
}

std::string CriteoSource::describe() const {
  const size_t files = files_.size();
  return fmt::format("{}: {} samples of text{}", shown_paths(paths_), plan_.samples,
                     files > 1 ? fmt::format(" in {} files", files) : "");
}

}  // namespace dlrm
