#include "criteo_convert.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/data/dataset_writer.h"
#include "dlrm/data/dictionary_file.h"

#include "criteo_ids.h"
#include "criteo_options.h"
#include "criteo_pass.h"
#include "criteo_survey.h"

namespace dlrm {
namespace {

using IdSources = std::vector<std::unique_ptr<IdSource>>;

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  for (size_t f = 0; f < kCriteoCategories; ++f) names.push_back(criteo_feature_name(f));
  return names;
}

Dictionary load(const FeatureVocabulary& vocabulary, const std::string& path) {
  Dictionary dictionary(1);
  for (size_t i = 0; i < vocabulary.values.size(); ++i) {
    const auto id = static_cast<int64_t>(i) + 1;
    const bool missing = id == vocabulary.missing_id;
    if (dictionary.insert(missing ? kMissingValue : vocabulary.values[i]) == id) continue;
    throw usage_error("{}: {} holds the value {:08x} twice", path, vocabulary.feature,
                      vocabulary.values[i]);
  }
  return dictionary;
}

/// The initial dictionaries, one per feature.
std::vector<Dictionary> initial_dictionaries(const CriteoOptions& options) {
  const int32_t first_id = options.dictionary.empty() && options.frequency_threshold == 0 ? 0 : 1;
  std::vector<Dictionary> result;
  if (options.dictionary.empty() || !std::filesystem::exists(options.dictionary)) {
    result.assign(kCriteoCategories, Dictionary(first_id));
    return result;
  }
  for (const FeatureVocabulary& v : read_dictionary_file(options.dictionary, feature_names())) {
    result.push_back(load(v, options.dictionary));
  }
  return result;
}

IdSources make_id_sources(const CriteoOptions& options, CriteoSurvey* survey) {
  IdSources sources;
  if (options.max_rows > 0) {
    for (size_t f = 0; f < kCriteoCategories; ++f) {
      sources.push_back(make_hashed_ids(options.max_rows));
    }
    return sources;
  }
  std::vector<Dictionary> dictionaries = initial_dictionaries(options);
  for (size_t f = 0; f < kCriteoCategories; ++f) {
    if (options.frequency_threshold > 0) {
      survey->add_frequent(f, options.frequency_threshold, dictionaries[f]);
    }
    const bool known = options.frequency_threshold > 0 || options.frozen_dictionary;
    sources.push_back(known ? make_known_ids(std::move(dictionaries[f]))
                            : make_growing_ids(std::move(dictionaries[f])));
  }
  return sources;
}

DatasetLayout output_layout(int64_t samples) {
  DatasetLayout layout;
  layout.dense = static_cast<int64_t>(kCriteoNumbers);
  for (const std::string& name : feature_names()) {
    layout.features.push_back({name, 1, 0, IdType::kInt32});
  }
  layout.samples = samples;
  return layout;
}

/// The pass that writes the outputs. The first `train_rows` rows go to the training file, the
/// others to the test file.
class WritingPass : public CriteoPass {
 public:
  WritingPass(const CriteoOptions& options, IdSources& sources, int64_t rows, int64_t test_rows)
      : sources_(sources),
        output_(options.output, output_layout(rows < 0 ? -1 : rows - test_rows)) {
    if (options.test_output.empty()) return;
    train_rows_ = rows - test_rows;
    test_output_.emplace(options.test_output, output_layout(test_rows));
  }

  void encode(size_t feature, CriteoBlock& block) override {
    const auto rows = static_cast<size_t>(block.rows);
    sources_[feature]->encode(View<const CategoryValue>(block.values[feature]).first(rows),
                              View<int32_t>(block.ids[feature]).first(rows));
  }

  void write(const CriteoBlock& block) override {
    const int64_t train = std::min(block.rows, std::max<int64_t>(0, train_rows_ - written_));
    if (train > 0) append(output_, block, 0, train);
    if (block.rows > train) append(*test_output_, block, train, block.rows - train);
    written_ += block.rows;
  }

  void finish() {
    finish(output_);
    if (test_output_) finish(*test_output_);
  }

 private:
  void append(DatasetWriter& writer, const CriteoBlock& block, int64_t first, int64_t count) {
    const auto begin = static_cast<size_t>(first), rows = static_cast<size_t>(count);
    DatasetBlock out;
    out.samples = count;
    out.labels = View<const float>(block.labels).subspan(begin, rows);
    out.dense =
        View<const float>(block.dense).subspan(begin * kCriteoNumbers, rows * kCriteoNumbers);
    for (const std::vector<int32_t>& ids : block.ids) {
      BagColumn column;
      column.ids = View<const int32_t>(ids).subspan(begin, rows);
      out.bags.push_back(column);
    }
    writer.append(out);
  }

  void finish(DatasetWriter& writer) {
    for (size_t f = 0; f < kCriteoCategories; ++f) {
      writer.set_rows(static_cast<int64_t>(f), sources_[f]->rows());
    }
    writer.finish();
  }

  IdSources& sources_;
  DatasetWriter output_;
  std::optional<DatasetWriter> test_output_;
  int64_t train_rows_ = std::numeric_limits<int64_t>::max();
  int64_t written_ = 0;
};

void save_dictionary(const std::string& path, const IdSources& sources) {
  std::vector<FeatureVocabulary> features;
  for (size_t f = 0; f < kCriteoCategories; ++f) {
    FeatureVocabulary& feature = features.emplace_back();
    feature.feature = criteo_feature_name(f);
    for (const CategoryValue value : sources[f]->dictionary()->values()) {
      feature.values.push_back(value == kMissingValue ? 0 : static_cast<uint32_t>(value));
      if (value == kMissingValue) {
        feature.missing_id = static_cast<int64_t>(feature.values.size());
      }
    }
  }
  write_dictionary_file(path, features);
}

int64_t test_rows_of(const CriteoOptions& options, int64_t rows) {
  if (options.test_output.empty()) return 0;
  const auto test =
      static_cast<int64_t>(std::llround(static_cast<double>(rows) * options.test_fraction));
  if (test > 0 && test < rows) return test;
  throw usage_error("--test-fraction {} of {} rows leaves nothing {}", options.test_fraction, rows,
                    test == 0 ? "to test with" : "to train on");
}

}  // namespace

CriteoReport convert_criteo(const CriteoOptions& options) {
  check_criteo_options(options);
  TaskTeam team(options.threads > 0 ? options.threads : usable_cpus());

  std::optional<CriteoSurvey> survey;
  int64_t rows = -1;
  if (needs_survey(options)) {
    survey.emplace(options.frequency_threshold > 0);
    rows = run_criteo_pass(options.inputs, options.skip_malformed, team, *survey).rows;
  }
  const int64_t test_rows = test_rows_of(options, rows);
  IdSources sources = make_id_sources(options, survey ? &*survey : nullptr);
  survey.reset();

  WritingPass pass(options, sources, rows, test_rows);
  const PassTotals totals = run_criteo_pass(options.inputs, options.skip_malformed, team, pass);
  if (rows >= 0 && totals.rows != rows) {
    throw run_error("{}: {} rows at first, {} when read again; did the file change?",
                    options.inputs[0], rows, totals.rows);
  }
  if (totals.rows == 0) throw usage_error("{}: no line is well-formed", options.inputs[0]);
  if (!options.dictionary.empty() && !options.frozen_dictionary) {
    save_dictionary(options.dictionary, sources);
  }
  pass.finish();

  CriteoReport report{totals.rows, test_rows, totals.skipped, totals.bytes, {}};
  for (size_t f = 0; f < kCriteoCategories; ++f) report.feature_rows[f] = sources[f]->rows();
  return report;
}

}  // namespace dlrm
