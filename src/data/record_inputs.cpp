#include "dlrm/data/record_inputs.h"

#include <algorithm>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

namespace dlrm {
namespace {

/// A list that many records share takes memory for each of them. A body of 16 MiB of JSON can have
/// as many ids without sharing.
constexpr size_t kMostShared = size_t{1} << 23;

/// Rolls samples back unless it is told that all went well.
class Undo {
 public:
  explicit Undo(Samples& samples)
      : samples_(samples),
        size_(samples.size),
        dense_(samples.dense.size()),
        ids_(samples.ids.size()),
        offsets_(samples.offsets.size()) {}
  ~Undo() {
    if (done_) return;
    samples_.size = size_;
    samples_.dense.resize(dense_);
    samples_.ids.resize(ids_);
    samples_.offsets.resize(offsets_);
  }
  void done() { done_ = true; }

 private:
  Samples& samples_;
  const int64_t size_;
  const size_t dense_, ids_, offsets_;
  bool done_ = false;
};

}  // namespace

/// A record, with what it shares with others.
struct RecordInputs::Source {
  const Records& records;
  size_t record;
  const Records* shared = nullptr;   ///< with one record
  const Samples* encoded = nullptr;  ///< of the shared part: bags of features that read no other

  bool own(size_t column) const { return records.has(record, column); }
  bool is_shared(size_t column) const { return shared && shared->has(0, column) && !own(column); }
  Field field(size_t column) const {
    return is_shared(column) ? shared->field(0, column) : records.field(record, column);
  }
};

RecordInputs::RecordInputs(Preprocessing preprocessing, const Inputs& inputs,
                           const std::string& where)
    : encoder_(std::move(preprocessing)),
      columns_(encoder_.preprocessing(), {}),
      features_(inputs.features) {
  const Preprocessing& p = encoder_.preprocessing();
  if (static_cast<int64_t>(p.dense.size()) != inputs.dense) {
    throw usage_error("{}: has {} dense columns, and the model {}", where, p.dense.size(),
                      inputs.dense);
  }
  for (const Inputs::Feature& feature : features_) {
    if (feature.weighted) {
      throw usage_error("{}: ids of {} have weights, which records do not give", where,
                        feature.name);
    }
    const auto found = std::ranges::find(p.sparse, feature.name, &Preprocessing::Sparse::feature);
    if (found == p.sparse.end()) throw usage_error("{}: lacks the feature {}", where, feature.name);
    places_.push_back(static_cast<size_t>(found - p.sparse.begin()));
  }
}

Columns RecordInputs::columns(const std::vector<std::string>& more) const {
  return {encoder_.preprocessing(), more};
}

std::vector<std::string> RecordInputs::needed(const std::vector<std::string>& more) const {
  std::vector<std::string> names;
  for (const auto& dense : encoder_.preprocessing().dense) names.push_back(dense.column);
  for (const size_t place : places_) names.push_back(encoder_.preprocessing().sparse[place].column);
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

void RecordInputs::append(const SharedRecords& all, const Columns& columns,
                          Samples& samples) const {
  Samples shared;
  if (all.shared.size() > 0) {
    try {
      for (size_t f = 0; f < places_.size(); ++f) {
        const size_t column = columns.sparse(places_[f]);
        if (all.shared.has(0, column)) {
          encoder_.append_ids(places_[f], all.shared.field(0, column), shared.ids);
        }
        shared.offsets.push_back(static_cast<int64_t>(shared.ids.size()));
      }
    } catch (const Error& error) {
      const size_t f = shared.offsets.size() - 1;
      throw usage_error("shared.{}: {}",
                        printable(encoder_.preprocessing().sparse[places_[f]].column, 60),
                        error.what());
    }
  }
  const bool has_shared = all.shared.size() > 0;
  for (size_t record = 0; record < all.records.size(); ++record) {
    const Source source{all.records, record, has_shared ? &all.shared : nullptr, &shared};
    try {
      append_dense(source, columns, samples);
      append_ids(source, columns, samples);
    } catch (const Error& error) {
      throw usage_error("records[{}].{}", record, error.what());
    }
    ++samples.size;
  }
}

void RecordInputs::append(const Records& records, size_t record, const Columns& columns,
                          Samples& samples) const {
  Undo undo(samples);
  const Source source{records, record};
  append_dense(source, columns, samples);
  append_ids(source, columns, samples);
  ++samples.size;
  undo.done();
}

void RecordInputs::append_dense(const Source& source, const Columns& columns,
                                Samples& samples) const {
  const auto& dense = encoder_.preprocessing().dense;
  for (size_t i = 0; i < dense.size(); ++i) {
    try {
      samples.dense.push_back(encoder_.dense(i, source.field(columns.dense(i))));
    } catch (const Error& error) {
      throw usage_error("{}: {}", printable(dense[i].column, 60), error.what());
    }
  }
}

void RecordInputs::append_ids(const Source& source, const Columns& columns,
                              Samples& samples) const {
  // The dictionaries of all features are larger than caches: their memory is fetched together.
  for (const bool at_place : {false, true}) {
    for (const size_t place : places_) {
      const size_t column = columns.sparse(place);
      if (!source.is_shared(column)) encoder_.prefetch(place, source.field(column), at_place);
    }
  }
  for (size_t f = 0; f < places_.size(); ++f) {
    const auto& sparse = encoder_.preprocessing().sparse[places_[f]];
    const size_t column = columns.sparse(places_[f]);
    const size_t before = samples.ids.size();
    try {
      if (source.is_shared(column)) {
        const auto* const bag = source.encoded->offsets.data() + f;
        const auto count = static_cast<size_t>(bag[1] - bag[0]);
        if (count > 1 && before + count > kMostShared) {
          throw usage_error("shared lists become more than {} ids; send fewer records",
                            kMostShared);
        }
        samples.ids.insert(samples.ids.end(), source.encoded->ids.begin() + bag[0],
                           source.encoded->ids.begin() + bag[1]);
      } else {
        encoder_.append_ids(places_[f], source.field(column), samples.ids);
      }
      for (size_t i = before; i < samples.ids.size(); ++i) {
        if (samples.ids[i] < features_[f].rows) continue;
        throw usage_error("{}; the model's table has {} rows", samples.ids[i], features_[f].rows);
      }
    } catch (const Error& error) {
      throw usage_error("{}: {}", printable(sparse.column, 60), error.what());
    }
    samples.offsets.push_back(static_cast<int64_t>(samples.ids.size()));
  }
}

}  // namespace dlrm
