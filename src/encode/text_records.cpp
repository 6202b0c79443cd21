#include "dlrm/encode/text_records.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"
#include "dlrm/encode/utf8.h"

namespace dlrm {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Takes the next field from the front of `line`, without its quotes. `more` says whether another
/// follows.
std::string next_field(const TextFormat& format, std::string_view& line, bool& more) {
  std::string field;
  if (format.quote != '\0' && !line.empty() && line[0] == format.quote) {
    line.remove_prefix(1);
    for (;;) {
      const size_t end = line.find(format.quote);
      if (end == std::string_view::npos) {
        throw usage_error("has a quote that is not closed on the line");
      }
      field += line.substr(0, end);
      line.remove_prefix(end + 1);
      if (line.empty() || line[0] != format.quote) break;
      field += format.quote;
      line.remove_prefix(1);
    }
  }
  // What follows a closing quote belongs to the field, as Python's csv has it.
  const size_t end = std::min(line.find(format.delimiter), line.size());
  field += line.substr(0, end);
  more = end < line.size();
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

std::string_view without_end(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

}  // namespace

RecordFormat record_format(const std::string& path, const std::string& given,
                           const Preprocessing::Log& log) {
  const auto ends = [&](std::initializer_list<std::string_view> endings) {
    return std::ranges::any_of(endings, [&](std::string_view end) {
      return path.ends_with(end) || path.ends_with(std::string(end) + ".gz");
    });
  };
  const bool csv = ends({".csv"}), tsv = ends({".tsv", ".txt"}), text = log.type.ends_with("sv");
  std::string type = given;
  if (type.empty()) {
    type = ends({".parquet", ".pq"})              ? "parquet"
           : ends({".json", ".jsonl", ".ndjson"}) ? "json"
           : text                                 ? log.type
           : csv                                  ? "csv"
           : tsv                                  ? "tsv"
           : log.type.empty()                     ? "json"
                                                  : log.type;
  }
  if (type == "json") return {RecordFormat::Kind::kJson, {}};
  if (type == "parquet") return {RecordFormat::Kind::kParquet, {}};
  const bool commas = type == "csv";
  return {RecordFormat::Kind::kText,
          {log.delimiter.value_or(commas ? ',' : '\t'), log.quote.value_or(commas ? '"' : '\0'),
           log.columns}};
}

RecordLines::RecordLines(const RecordFormat& format, const Columns& columns,
                         std::vector<std::string> needed)
    : format_(format), columns_(columns), needed_(std::move(needed)) {
  if (format_.kind != RecordFormat::Kind::kText) return;
  needs_header_ = format_.text.columns.empty();
  if (!needs_header_) take_names(format_.text.columns);
}

void RecordLines::take_header(std::string_view line) {
  if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  line = without_end(line);
  if (!is_utf8(line)) throw usage_error("the header is not UTF-8");
  std::vector<std::string> names;
  for (bool more = true; more;) names.push_back(next_field(format_.text, line, more));
  for (const std::string& name : names) {
    if (std::ranges::count(names, name) > 1) {
      throw usage_error("the header names '{}' twice", printable(name, 60));
    }
  }
  take_names(names);
  needs_header_ = false;
}

void RecordLines::take_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) fields_.push_back(columns_.find(name));
  for (const std::string& name : needed_) {
    if (std::ranges::count(names, name) > 0) continue;
    throw usage_error("there is no column {}; there are {}", printable(name, 60),
                      printable(fmt::format("{}", fmt::join(names, ", ")), 300));
  }
}

void RecordLines::append(std::string_view line, Records& records) const {
  if (format_.kind == RecordFormat::Kind::kText) return append_text(line, records);
  append_record(line, columns_, records);
}

void RecordLines::append_text(std::string_view line, Records& records) const {
  line = without_end(line);
  if (!is_utf8(line)) throw usage_error("is not UTF-8");
  records.reserve_text(line.size());
  records.begin_record();
  try {
    size_t count = 0;
    for (bool more = true; more; ++count) {
      const std::string field = next_field(format_.text, line, more);
      if (count >= fields_.size() || fields_[count] < 0) continue;
      records.begin_field(static_cast<size_t>(fields_[count]), false);
      records.add({Value::Kind::kText, 0, 0, field});
    }
    if (count != fields_.size()) throw usage_error("{} fields; expected {}", count, fields_.size());
  } catch (...) {
    records.drop_record();
    throw;
  }
}

}  // namespace dlrm
