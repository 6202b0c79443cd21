#include "lines.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>

#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/record_file.h"

#include "json_samples.h"
#include "json_value.h"
#include "records.h"

namespace dlrm::serve {
namespace {

constexpr size_t kLongestLine = size_t{16} << 20;

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw run_error("cannot write the answers: {}", std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(count));
  }
}

/// The samples of some lines or records, and what is wrong with the others.
struct Parsed {
  Samples samples;
  std::vector<std::string> errors;  ///< by line; empty if the line is a sample
  std::vector<std::string> keys;    ///< by line: what precedes the probability
};

/// Makes samples of records.
class RecordParser {
 public:
  RecordParser(const TrainedModel& model, const std::vector<std::string>& keys)
      : inputs_(model.records()), columns_(inputs_.columns(keys)), keys_(keys) {}

  const Columns& columns() const { return columns_; }
  std::vector<std::string> needed() const { return inputs_.needed(keys_); }
  /// `keys` are there even if the record is no sample.
  void parse(const Records& records, size_t record, Samples& samples, std::string& keys) const {
    for (const std::string& key : keys_) {
      const auto column = static_cast<size_t>(columns_.find(key));
      keys += fmt::format("{}: {}, ", json_text(key), json_text(records.field(record, column)));
    }
    inputs_.append(records, record, columns_, samples);
  }

 private:
  const RecordInputs& inputs_;
  const Columns columns_;
  const std::vector<std::string> keys_;
};

/// Fills `parsed` with what `parse`(number, keys) makes of so many lines or records.
template <class Parse>
void parse_all(size_t count, Parsed& parsed, const Parse& parse) {
  parsed.samples.clear();
  parsed.errors.assign(count, "");
  parsed.keys.assign(count, "");
  for (size_t i = 0; i < count; ++i) {
    try {
      parse(i, parsed.keys[i]);
    } catch (const Error& error) {
      parsed.errors[i] = error.what();
    }
  }
}

/// Reads lines as samples or as records.
class LineParser {
 public:
  LineParser(const TrainedModel& model, const LineOptions& options) : inputs_(model.inputs()) {
    if (!options.records) return;
    records_.emplace(model, options.keys);
    lines_.emplace(*options.records, records_->columns(), records_->needed());
  }

  /// Whether the line of names of delimited text comes next.
  bool needs_header() const { return lines_ && lines_->needs_header(); }
  void take_header(const LineReader::Line& line) {
    try {
      lines_->take_header(line.text);
    } catch (const Error& error) {
      throw usage_error("line 1: {}", error.what());
    }
  }

  void parse(View<const LineReader::Line> lines, Parsed& parsed) const {
    parse_all(lines.size(), parsed, [&](size_t i, std::string& keys) {
      if (lines[i].cut) throw usage_error("the line is longer than {} bytes", kLongestLine);
      if (!records_) return append_json_sample(lines[i].text, inputs_, parsed.samples);
      Records records(records_->columns().size());
      lines_->append(lines[i].text, records);
      records_->parse(records, 0, parsed.samples, keys);
    });
  }

 private:
  const Inputs& inputs_;
  std::optional<RecordParser> records_;
  std::optional<RecordLines> lines_;
};

/// The probability of a sample, or those of several labels by name.
std::string text_of(View<const float> p, const Inputs& inputs) {
  if (inputs.tasks.empty()) return fmt::format("{}", p[0]);
  std::string text;
  for (size_t label = 0; label < p.size(); ++label) {
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : ", ", json_text(inputs.tasks[label]), p[label]);
  }
  return "{" + text + "}";
}

/// Predicts the samples, and writes the answer of each line.
void answer(TrainedModel& model, Parsed& parsed, std::vector<float>& probabilities, int out) {
  const size_t labels = model.inputs().labels();
  probabilities.resize(static_cast<size_t>(parsed.samples.size) * labels);
  model.predict(parsed.samples, probabilities);
  std::string answers;
  View<const float> rest = probabilities;
  for (size_t line = 0; line < parsed.errors.size(); ++line) {
    std::string& error = parsed.errors[line];
    const std::string& keys = parsed.keys[line];
    const View<const float> p = rest.first(error.empty() ? labels : 0);
    rest = rest.subspan(p.size());
    for (const float value : p) {
      if (!std::isfinite(value)) error = "the model's output is not finite";
    }
    answers += error.empty()
                   ? fmt::format("{{{}\"probability\": {}}}\n", keys, text_of(p, model.inputs()))
                   : fmt::format("{{{}\"error\": {}}}\n", keys, json_text(error));
  }
  write_all(out, answers);
}

}  // namespace

LineReader::LineReader(int file, size_t longest) : file_(file), longest_(longest) {}

const std::vector<LineReader::Line>& LineReader::next(size_t most) {
  lines_.clear();
  while (!take_lines(most) && !ended_) ended_ = !read_more();
  return lines_;
}

/// Takes lines from the buffer. Returns false if it holds none.
bool LineReader::take_lines(size_t most) {
  while (lines_.size() < most) {
    const size_t end = buffer_.find('\n', scanned_);
    if (end == std::string::npos && !ended_ && buffer_.size() - begin_ <= longest_) {
      scanned_ = buffer_.size();
      break;
    }
    const size_t next = end == std::string::npos ? buffer_.size() : end + 1;
    const size_t size = std::min(end, buffer_.size()) - begin_;
    const bool whole = end != std::string::npos;
    if (!skipping_ && (whole || size > 0)) {
      lines_.push_back(
          {std::string_view(buffer_).substr(begin_, std::min(size, longest_)), size > longest_});
    }
    skipping_ = !whole && !ended_;
    begin_ = scanned_ = next;
    if (!whole) break;
  }
  return !lines_.empty();
}

/// Returns false at the end of the file.
bool LineReader::read_more() {
  constexpr size_t kBlock = size_t{64} << 10;
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kBlock);
  ssize_t count = 0;
  do {
    count = ::read(file_, buffer_.data() + before, kBlock);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw run_error("cannot read the samples: {}", std::strerror(errno));
  buffer_.resize(before + static_cast<size_t>(count));
  return count > 0;
}

void predict_lines(TrainedModel& model, const LineOptions& options, int64_t batch_size, int in,
                   int out) {
  LineParser parser(model, options);
  LineReader reader(in, kLongestLine);
  Parsed parsed;
  std::vector<float> probabilities;
  for (;;) {
    View<const LineReader::Line> lines = reader.next(static_cast<size_t>(batch_size));
    if (lines.empty()) return;
    if (parser.needs_header()) {
      parser.take_header(lines[0]);
      lines = lines.subspan(1);
    }
    parser.parse(lines, parsed);
    answer(model, parsed, probabilities, out);
  }
}

void predict_parquet(TrainedModel& model, const std::vector<std::string>& keys, int64_t batch_size,
                     const std::string& path, int out) {
  const RecordParser parser(model, keys);
  const auto file = open_record_file(path, {RecordFormat::Kind::kParquet, {}}, parser.columns(),
                                     parser.needed(), batch_size);
  Parsed parsed;
  std::vector<float> probabilities;
  for (int64_t first = 0; first < file->size(); first += batch_size) {
    Records records(parser.columns().size());
    file->append(first, std::min(first + batch_size, file->size()), records);
    parse_all(records.size(), parsed, [&](size_t i, std::string& keys_of) {
      parser.parse(records, i, parsed.samples, keys_of);
    });
    answer(model, parsed, probabilities, out);
  }
}

}  // namespace dlrm::serve
