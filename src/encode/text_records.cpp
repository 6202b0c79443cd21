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

TextRecords::TextRecords(const TextFormat& format, std::string_view header, const Columns& columns,
                         const std::vector<std::string>& needed)
    : format_(format) {
  if (header.starts_with(kByteOrderMark)) header.remove_prefix(kByteOrderMark.size());
  header = without_end(header);
  if (!is_utf8(header)) throw usage_error("the header is not UTF-8");
  std::vector<std::string> names;
  for (bool more = true; more;) names.push_back(next_field(format_, header, more));
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1) {
      throw usage_error("the header names '{}' twice", printable(name, 60));
    }
    columns_.push_back(columns.find(name));
  }
  for (const std::string& name : needed) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw usage_error("there is no column {}; there are {}", printable(name, 60),
                        printable(fmt::format("{}", fmt::join(names, ", ")), 300));
    }
  }
}

void TextRecords::append(std::string_view line, Records& records) const {
  line = without_end(line);
  if (!is_utf8(line)) throw usage_error("is not UTF-8");
  records.reserve_text(line.size());
  records.begin_record();
  try {
    size_t count = 0;
    for (bool more = true; more; ++count) {
      const std::string field = next_field(format_, line, more);
      if (count >= columns_.size() || columns_[count] < 0) continue;
      records.begin_field(static_cast<size_t>(columns_[count]), false);
      records.add({Value::Kind::kText, 0, 0, field});
    }
    if (count != columns_.size()) {
      throw usage_error("{} fields; expected {}", count, columns_.size());
    }
  } catch (...) {
    records.drop_record();
    throw;
  }
}

}  // namespace dlrm
