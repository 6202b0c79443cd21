#include "hdf5_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dlrm/core/error.h"

#include "column_access.h"

namespace dlrm {
namespace {

/// True if any of `count` floats is NaN or infinite. Adding one to the exponent carries into the
/// sign bit if all its bits are set.
bool any_non_finite(const float* values, size_t count) {
  uint32_t carried = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, 4);
    carried |= (bits & 0x7fffffffu) + 0x00800000u;
  }
  return (carried & 0x80000000u) != 0;
}

/// With several labels, NaN is one that is missing.
bool is_label(float value, bool may_be_missing) {
  return (value >= 0.0f && value <= 1.0f) || (may_be_missing && std::isnan(value));
}

bool is_weight(float value) { return value >= 0 && value <= std::numeric_limits<float>::max(); }

}  // namespace

void Hdf5Source::load(int64_t t, Batch& batch) const {
  const Range samples = plan_.start_batch(t, options_.rank, options_.world, batch);
  std::unique_ptr<Scratch> scratch = scratch_.take();
  find_places(batch, samples, *scratch);
  try {
    gather(scratch->places, batch);
  } catch (const Error&) {
    // A file that was cut short has zeros in the place of values. check_whole() reports it.
    check_whole(*scratch);
    throw;
  }
  check_whole(*scratch);
  scratch_.give_back(std::move(scratch));
}

void Hdf5Source::gather(const std::vector<Place>& places, Batch& batch) const {
  if (options_.verify) verifier_.verify(places);
  gather_labels(places, batch);
  if (dataset_.files().front()->weighted()) gather_weights(places, batch);
  gather_dense(places, batch);
  gather_offsets(places, batch);
  gather_id_weights(places, batch);
  gather_ids(places, batch);
}

void Hdf5Source::check_whole(const Scratch& scratch) const {
  for (size_t f = 0; f < scratch.files.size(); ++f) {
    if (scratch.files[f]) dataset_.files()[f]->check_whole();
  }
}

void Hdf5Source::find_places(const Batch& batch, Range positions, Scratch& scratch) const {
  const auto b = static_cast<size_t>(batch.size());
  scratch.samples.resize(b);
  scratch.places.resize(b);
  order_.samples_at(batch.epoch, positions, scratch.samples);
  const std::vector<int64_t>& starts = dataset_.starts();
  // With one file, every sample is in it.
  scratch.files.assign(starts.size() - 1, starts.size() == 2);
  if (starts.size() == 2) {
    for (size_t i = 0; i < b; ++i) scratch.places[i] = {0, scratch.samples[i]};
    return;
  }
  for (size_t i = 0; i < b; ++i) {
    const int64_t sample = scratch.samples[i];
    const int64_t file =
        std::upper_bound(starts.begin(), starts.end(), sample) - starts.begin() - 1;
    scratch.places[i] = {file, sample - starts[static_cast<size_t>(file)]};
    scratch.files[static_cast<size_t>(file)] = true;
  }
}

std::string Hdf5Source::record(const Place& place) const {
  return fmt::format("{}: record {} (counted from 0)",
                     dataset_.files()[static_cast<size_t>(place.file)]->path(), place.sample);
}

void Hdf5Source::gather_labels(const std::vector<Place>& places, Batch& batch) const {
  batch.labels.resize(places.size() * std::max<size_t>(tasks_.size(), 1));
  if (dataset_.files().front()->label_type() == LabelType::kUint8) {
    gather_labels_as<uint8_t>(places, batch);
  } else {
    gather_labels_as<float>(places, batch);
  }
}

template <class Label>
void Hdf5Source::gather_labels_as(const std::vector<Place>& places, Batch& batch) const {
  const size_t b = places.size(), several = tasks_.size(), count = std::max<size_t>(several, 1);
  const int64_t stride = static_cast<int64_t>(count * sizeof(Label));
  bool bad = false;
  for (size_t i = 0; i < b; ++i) {
    if (i + kAhead < b) {
      const Place& later = places[i + kAhead];
      request(labels_[static_cast<size_t>(later.file)] + later.sample * stride, stride);
    }
    const std::byte* const labels =
        labels_[static_cast<size_t>(places[i].file)] + places[i].sample * stride;
    for (size_t l = 0; l < count; ++l) {
      const auto label = static_cast<float>(element<Label>(labels, static_cast<int64_t>(l)));
      batch.labels[l * b + i] = label;
      bad |= !is_label(label, several > 0);
    }
  }
  if (bad) report_label(places, batch);
}

void Hdf5Source::report_label(const std::vector<Place>& places, const Batch& batch) const {
  const size_t b = places.size();
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const float label = batch.labels[i];
    if (is_label(label, !tasks_.empty())) continue;
    if (tasks_.empty()) {
      throw usage_error("{}: label {}; labels are 0, 1 or between", record(places[i]), label);
    }
    throw usage_error("{}: label {} of task {}; labels are 0, 1 or between, or NaN if missing",
                      record(places[i % b]), label, tasks_[i / b]);
  }
  DLRM_CHECK(false, "no bad label found again");
  __builtin_unreachable();
}

void Hdf5Source::gather_weights(const std::vector<Place>& places, Batch& batch) const {
  batch.weights.resize(places.size());
  bool bad = false;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto weight =
        element<float>(weights_[static_cast<size_t>(places[i].file)], places[i].sample);
    batch.weights[i] = weight;
    bad |= !is_weight(weight);
  }
  if (!bad) return;
  for (size_t i = 0; i < places.size(); ++i) {
    if (is_weight(batch.weights[i])) continue;
    throw usage_error("{}: weight {}; a weight is a finite number of at least 0", record(places[i]),
                      batch.weights[i]);
  }
}

void Hdf5Source::gather_dense(const std::vector<Place>& places, Batch& batch) const {
  const auto n = static_cast<size_t>(dense_width_);
  batch.dense.resize(places.size() * n);
  if (n == 0) return;
  float* out = batch.dense.data();
  const int64_t stride = dense_width_ * 4;
  const auto row_of = [&](const Place& place) {
    return dense_[static_cast<size_t>(place.file)] + place.sample * stride;
  };
  for (size_t i = 0; i < places.size(); ++i) {
    if (i + kAhead < places.size()) request(row_of(places[i + kAhead]), stride);
    std::memcpy(out + i * n, row_of(places[i]), n * 4);
  }
  if (!any_non_finite(out, batch.dense.size())) return;
  for (size_t i = 0; i < batch.dense.size(); ++i) {
    if (!any_non_finite(out + i, 1)) continue;
    throw usage_error("{}, column {} of /dense: {} is not a finite number", record(places[i / n]),
                      i % n, out[i]);
  }
}

void Hdf5Source::gather_offsets(const std::vector<Place>& places, Batch& batch) const {
  batch.offsets.resize(columns_.size() * places.size() + 1);
  int64_t* out = batch.offsets.data();
  int64_t next = 0;
  *out++ = 0;
  for (const Column& column : columns_) {
    if (column.hotness > 0) {
      for (size_t i = 0; i < places.size(); ++i) *out++ = next += column.hotness;
      continue;
    }
    for (size_t i = 0; i < places.size(); ++i) {
      if (i + kAhead < places.size()) {
        const Place& later = places[i + kAhead];
        request(column.offsets[static_cast<size_t>(later.file)] + later.sample * 8, 16);
      }
      const Place& place = places[i];
      const auto file = static_cast<size_t>(place.file);
      const auto begin = element<int64_t>(column.offsets[file], place.sample);
      const auto end = element<int64_t>(column.offsets[file], place.sample + 1);
      if (begin < 0 || end < begin || end > column.counts[file]) report_bags(column, place);
      *out++ = next += end - begin;
    }
  }
}

/// Gathers the weights of ids if a feature has some. They are finite.
void Hdf5Source::gather_id_weights(const std::vector<Place>& places, Batch& batch) const {
  const bool any =
      std::ranges::any_of(columns_, [](const Column& c) { return !c.weights.empty(); });
  batch.id_weights.assign(any ? static_cast<size_t>(batch.offsets.back()) : 0, 1.0f);
  for (size_t f = 0; f < columns_.size(); ++f) {
    const Column& column = columns_[f];
    if (column.weights.empty()) continue;
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      const auto file = static_cast<size_t>(place.file);
      const int64_t* ends = batch.offsets.data() + f * places.size() + i;
      const int64_t first = column.hotness > 0
                                ? place.sample * column.hotness
                                : element<int64_t>(column.offsets[file], place.sample);
      const auto count = static_cast<size_t>(ends[1] - ends[0]);
      if (count == 0) continue;
      float* const out = batch.id_weights.data() + ends[0];
      std::memcpy(out, column.weights[file] + first * 4, count * 4);
      if (!any_non_finite(out, count)) continue;
      const float* const bad =
          std::find_if(out, out + count, [](const float& w) { return any_non_finite(&w, 1); });
      throw usage_error("{}, feature {}: weight {} of an id is not a finite number", record(place),
                        column.name, *bad);
    }
  }
}

void Hdf5Source::gather_ids(const std::vector<Place>& places, Batch& batch) const {
  batch.ids.resize(static_cast<size_t>(batch.offsets.back()));
  bool bad = false;
  for (size_t f = 0; f < columns_.size(); ++f) {
    const Column& column = columns_[f];
    bad |= column.type == IdType::kInt32 ? gather_feature<int32_t>(column, places, f, batch)
                                         : gather_feature<int64_t>(column, places, f, batch);
  }
  if (!bad) return;
  if (options_.invalid_id == InvalidId::kError) report_invalid(places, batch);
  drop_invalid(batch);
}

template <class Id>
bool Hdf5Source::gather_feature(const Column& column, const std::vector<Place>& places,
                                size_t feature, Batch& batch) const {
  const size_t b = places.size();
  const int64_t* offsets = batch.offsets.data() + feature * b;
  const auto limit = static_cast<uint64_t>(column.rows);
  int64_t* out = batch.ids.data() + offsets[0];
  bool bad = false;
  // The first id of a sample. It may be unaligned.
  const auto ids_of = [&](const Place& place) {
    const auto file = static_cast<size_t>(place.file);
    const int64_t begin = column.hotness > 0 ? place.sample * column.hotness
                                             : element<int64_t>(column.offsets[file], place.sample);
    return column.ids[file] + begin * static_cast<int64_t>(sizeof(Id));
  };
  for (size_t i = 0; i < b; ++i) {
    if (i + kAhead < b) {
      const int64_t later = offsets[i + kAhead + 1] - offsets[i + kAhead];
      request(ids_of(places[i + kAhead]), later * static_cast<int64_t>(sizeof(Id)));
    }
    const std::byte* ids = ids_of(places[i]);
    const int64_t count = offsets[i + 1] - offsets[i];
    for (int64_t k = 0; k < count; ++k) {
      const int64_t id = element<Id>(ids, k);
      *out++ = id;
      bad |= static_cast<uint64_t>(id) >= limit;  // also finds negative ids
    }
  }
  return bad;
}

void Hdf5Source::drop_invalid(Batch& batch) const {
  const auto b = static_cast<size_t>(batch.size());
  int64_t kept = 0;
  int64_t from = 0;
  for (size_t bag = 0; bag < columns_.size() * b; ++bag) {
    const auto limit = static_cast<uint64_t>(columns_[bag / b].rows);
    const int64_t to = batch.offsets[bag + 1];
    for (; from < to; ++from) {
      const int64_t id = batch.ids[static_cast<size_t>(from)];
      if (static_cast<uint64_t>(id) >= limit) continue;
      if (!batch.id_weights.empty()) {
        batch.id_weights[static_cast<size_t>(kept)] = batch.id_weights[static_cast<size_t>(from)];
      }
      batch.ids[static_cast<size_t>(kept++)] = id;
    }
    batch.offsets[bag + 1] = kept;
  }
  batch.dropped = from - kept;
  batch.ids.resize(static_cast<size_t>(kept));
  if (!batch.id_weights.empty()) batch.id_weights.resize(static_cast<size_t>(kept));
}

void Hdf5Source::report_invalid(const std::vector<Place>& places, const Batch& batch) const {
  for (size_t bag = 0; bag < columns_.size() * places.size(); ++bag) {
    const Column& column = columns_[bag / places.size()];
    for (int64_t k = batch.offsets[bag]; k < batch.offsets[bag + 1]; ++k) {
      const int64_t id = batch.ids[static_cast<size_t>(k)];
      if (id >= 0 && id < column.rows) continue;
      throw usage_error(
          "{}, feature {}: id {} is not in [0, {}) (data.invalid_id: drop leaves such ids out)",
          record(places[bag % places.size()]), column.name, id, column.rows);
    }
  }
  DLRM_CHECK(false, "no invalid id found again");
  __builtin_unreachable();
}

void Hdf5Source::report_bags(const Column& column, const Place& place) const {
  const auto file = static_cast<size_t>(place.file);
  throw usage_error("{}, feature {}: offsets {} to {}; they must rise and stay within {} ids",
                    record(place), column.name,
                    element<int64_t>(column.offsets[file], place.sample),
                    element<int64_t>(column.offsets[file], place.sample + 1), column.counts[file]);
}

}  // namespace dlrm
