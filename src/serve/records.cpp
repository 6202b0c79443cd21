#include "records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

#include "json_value.h"

namespace dlrm::serve {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

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
    : encoder_(std::move(preprocessing)), features_(inputs.features) {
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
    size_t place = kNone;
    for (size_t i = 0; i < p.sparse.size(); ++i) {
      if (p.sparse[i].feature == feature.name) place = i;
    }
    if (place == kNone) throw usage_error("{}: lacks the feature {}", where, feature.name);
    places_.push_back(place);
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
  for (size_t f = 0; f < places_.size(); ++f) {
    const auto& sparse = encoder_.preprocessing().sparse[places_[f]];
    const size_t column = columns.sparse(places_[f]);
    const size_t before = samples.ids.size();
    try {
      if (source.is_shared(column)) {
        const auto* const bag = source.encoded->offsets.data() + f;
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

Samples read_json_records(std::string_view text, const RecordInputs& inputs, int64_t most) {
  const Columns columns = inputs.columns();
  Samples samples;
  inputs.append(read_records(text, columns, most), columns, samples);
  return samples;
}

std::string json_text(const Field& field) {
  const auto text_of = [](const Value& value) -> std::string {
    switch (value.kind) {
      case Value::Kind::kMissing:
        return "null";
      case Value::Kind::kBool:
        return value.integer != 0 ? "true" : "false";
      case Value::Kind::kInteger:
        return std::to_string(value.integer);
      case Value::Kind::kNumber:
        return fmt::format("{}", value.number);
      case Value::Kind::kText:
        break;
    }
    return json_text(value.text);
  };
  if (!field.listed) return text_of(field.values.empty() ? Value{} : field.values[0]);
  std::string text;
  for (const Value& value : field.values) text += (text.empty() ? "" : ", ") + text_of(value);
  return "[" + text + "]";
}

bool has_records(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto skip = [&](size_t from) { return text.find_first_not_of(kSpace, from); };
  const size_t brace = skip(0);
  if (brace == std::string_view::npos || text[brace] != '{') return false;
  const size_t quote = skip(brace + 1);
  if (quote == std::string_view::npos) return false;
  const std::string_view rest = text.substr(quote);
  return rest.starts_with("\"records\"") || rest.starts_with("\"shared\"");
}

std::string samples_text(const Samples& samples, const Inputs& inputs) {
  std::string text;
  const size_t features = inputs.features.size();
  for (int64_t s = 0; s < samples.size; ++s) {
    const auto at = static_cast<size_t>(s);
    const auto dense =
        View<const float>(samples.dense)
            .subspan(at * static_cast<size_t>(inputs.dense), static_cast<size_t>(inputs.dense));
    text +=
        fmt::format("{}{{\"dense\": [{}], \"ids\": {{", s == 0 ? "" : ", ", fmt::join(dense, ", "));
    for (size_t f = 0; f < features; ++f) {
      const int64_t* const bag = samples.offsets.data() + at * features + f;
      const View<const int64_t> ids(samples.ids.data() + bag[0],
                                    static_cast<size_t>(bag[1] - bag[0]));
      text += fmt::format("{}{}: [{}]", f == 0 ? "" : ", ", json_text(inputs.features[f].name),
                          fmt::join(ids, ", "));
    }
    text += "}}";
  }
  return "[" + text + "]";
}

}  // namespace dlrm::serve
