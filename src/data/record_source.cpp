#include "dlrm/data/record_source.h"

#include "dlrm/core/error.h"

#include "linear_source.h"

namespace dlrm {
namespace {

RecordInputs inputs_for(const RunConfig& config, const FilePreprocessing& preprocessing) {
  const std::string where = preprocessing.file + ": /preprocessing";
  if (preprocessing.bytes.empty()) {
    throw usage_error(
        "{}: takes ids and no records: its training data was not written by dlrm-data import",
        preprocessing.file);
  }
  return {parse_preprocessing(preprocessing.bytes, where), inputs_of(config.model), where};
}

/// A missing value is empty. Of values that are no texts, JSON has only infinities as texts.
std::string csv_text(const Field& field) {
  const Value value = field.listed || field.values.empty() ? Value{} : field.values[0];
  const bool is_text = value.kind == Value::Kind::kText;
  std::string text = is_text ? std::string(value.text) : json_text(field);
  if (!is_text && text == "null") return {};
  if (!is_text && text[0] == '"') text = text.substr(1, text.size() - 2);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

RecordSource::RecordSource(const RunConfig& config, const RecordsOptions& options,
                           const FilePreprocessing& preprocessing, int rank, int world)
    : options_(options),
      inputs_(inputs_for(config, preprocessing)),
      columns_(inputs_.columns(options.keys)),
      features_(inputs_of(config.model).features.size()),
      labels_(static_cast<size_t>(config.model.num_labels())),
      linear_(config.model.linear),
      rank_(rank),
      world_(world) {
  const RecordFormat format =
      record_format(options.path, options.format, inputs_.preprocessing().log);
  // Workers are at most data.prefetch batches apart.
  const int64_t kept = (config.data.prefetch + 1) * config.train.global_batch_size;
  file_ = open_record_file(options.path, format, columns_, inputs_.needed(options.keys), kept);
  if (file_->size() == 0) throw usage_error("{}: holds no records", options.path);
  plan_ = {file_->size(), config.train.global_batch_size};
}

void RecordSource::load(int64_t t, Batch& batch) const {
  const Range range = plan_.start_batch(t, rank_, world_, batch);
  Records records(columns_.size());
  file_->append(range.begin, range.end, records);
  Samples samples;
  for (size_t i = 0; i < records.size(); ++i) {
    try {
      inputs_.append(records, i, columns_, samples);
    } catch (const Error& error) {
      throw usage_error("{}: column {}", file_->where(range.begin + static_cast<int64_t>(i)),
                        error.what());
    }
  }
  batch.labels.assign(labels_ * records.size(), 0.0f);
  batch.weights.clear();
  batch.id_weights.clear();
  batch.dense = std::move(samples.dense);
  batch.ids.clear();
  batch.offsets.assign(1, 0);
  for (size_t f = 0; f < features_; ++f) {
    for (size_t i = 0; i < records.size(); ++i) {
      const int64_t* const bag = samples.offsets.data() + i * features_ + f;
      batch.ids.insert(batch.ids.end(), samples.ids.begin() + bag[0], samples.ids.begin() + bag[1]);
      batch.offsets.push_back(std::ssize(batch.ids));
    }
  }
  if (linear_) LinearSource::repeat_bags(batch);
}

std::vector<std::string> RecordSource::keys(int64_t first, int64_t last) const {
  Records records(columns_.size());
  file_->append(first, last, records);
  std::vector<std::string> texts(records.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const std::string& key : options_.keys) {
      const auto column = static_cast<size_t>(columns_.find(key));
      if (&key != options_.keys.data()) texts[i] += ',';
      texts[i] += csv_text(records.field(i, column));
    }
  }
  return texts;
}

std::string RecordSource::describe() const {
  return fmt::format("{}: {} records", options_.path, plan_.samples);
}

}  // namespace dlrm
