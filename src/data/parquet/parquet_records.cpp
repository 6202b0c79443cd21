#include "parquet_records.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

using nlohmann::json;

int64_t place_of_value(const ArrowColumn& column, int64_t place) {
  return column.codes != nullptr ? column.codes[place] : place;
}

/// The places of the values that a record has.
Range places_of(const ArrowColumn& column, int64_t record) {
  if (column.lists == nullptr) return {record, record + 1};
  return {column.lists[record], column.lists[record + 1]};
}

int64_t text_bytes(const ArrowColumn& column, Range places) {
  if (column.kind != ArrowColumn::kText) return 0;
  int64_t bytes = 0;
  for (int64_t place = places.begin; place < places.end; ++place) {
    const int64_t at = place_of_value(column, place);
    bytes += column.ends[at + 1] - column.ends[at];
  }
  return bytes;
}

/// A column whose buffers follow one another from `at`, which moves on.
ArrowColumn column_at(const json& head, const std::byte*& at) {
  ArrowColumn column;
  head.at("count").get_to(column.count);
  head.at("records").get_to(column.records);
  head.at("coded").get_to(column.coded);
  column.kind = static_cast<ArrowColumn::Kind>(head.at("kind").get<int32_t>());
  size_t buffer = 0;
  const auto take = [&](auto*& to) {
    const auto bytes = head.at("bytes").at(buffer++).get<int64_t>();
    if (bytes == 0) return;
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(at);
    at += bytes;
  };
  const std::byte* values = nullptr;
  take(values);
  column.values = values;
  take(column.ends);
  take(column.bytes);
  take(column.there);
  take(column.codes);
  take(column.lists);
  return column;
}

}  // namespace

ParquetRecords::ParquetRecords(const std::string& path, const Columns& columns,
                               const std::vector<std::string>& needed, int64_t kept)
    : path_(path), kept_records_(kept) {
  json wanted = json::object();
  for (const std::string& name : needed) wanted[name] = columns.is_number(name);
  for (const auto& [name, number] : wanted.items()) {
    places_.push_back(static_cast<size_t>(columns.find(name)));
  }
  try {
    process_ = std::make_unique<PythonProcess>(
        "dlrm.importing", std::vector<std::string>{"--columns", path, wanted.dump()});
    for (const json& rows : process_->read_answer()) {
      starts_.push_back(starts_.back() + rows.get<int64_t>());
    }
  } catch (const PythonProcess::Ended& ended) {
    throw usage_error("{}: {}", path_, ended.how);
  }
}

std::shared_ptr<const ParquetRecords::Group> ParquetRecords::group(size_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(number);
  if (found != kept_.end()) return found->second;
  auto result = read(number);
  kept_[number] = result;
  while (starts_[kept_.begin()->first + 1] < starts_[number] - kept_records_) {
    kept_.erase(kept_.begin());
  }
  return result;
}

std::shared_ptr<const ParquetRecords::Group> ParquetRecords::read(size_t number) const {
  try {
    process_->write(std::to_string(number) + "\n");
    const json answer = process_->read_answer();
    size_t all = 0;
    for (const json& part : answer) {
      for (const json& column : part) {
        for (const json& bytes : column.at("bytes")) all += bytes.get<size_t>();
      }
    }
    auto result = std::make_shared<Group>();
    result->bytes = std::make_unique_for_overwrite<std::byte[]>(all);
    process_->read(result->bytes.get(), all);
    const std::byte* at = result->bytes.get();
    for (const json& head : answer) {
      Part& part = result->parts.emplace_back();
      for (const json& column : head) part.columns.push_back(column_at(column, at));
      const ArrowColumn& first = part.columns.at(0);
      part.records = first.lists != nullptr ? first.records : first.count;
    }
    return result;
  } catch (const PythonProcess::Ended& ended) {
    throw usage_error("{}: {}, which read it: is the file damaged, or memory short?", path_,
                      ended.how);
  }
}

void ParquetRecords::append(int64_t first, int64_t last, Records& records) const {
  while (first < last) {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), first);
    const auto number = static_cast<size_t>(after - starts_.begin()) - 1;
    const std::shared_ptr<const Group> held = group(number);
    const int64_t end = std::min(last, starts_[number + 1]);
    int64_t start = starts_[number];
    for (const Part& part : held->parts) {
      const int64_t from = std::max(first, start), to = std::min(end, start + part.records);
      if (from < to) append_part(part, from - start, to - start, records);
      start += part.records;
    }
    first = end;
  }
}

void ParquetRecords::append_part(const Part& part, int64_t first, int64_t last,
                                 Records& records) const {
  int64_t bytes = 0;
  for (const ArrowColumn& column : part.columns) {
    const Range all{places_of(column, first).begin, places_of(column, last - 1).end};
    bytes += text_bytes(column, all);
  }
  records.reserve_text(static_cast<size_t>(bytes));
  for (int64_t record = first; record < last; ++record) {
    records.begin_record();
    for (size_t c = 0; c < part.columns.size(); ++c) {
      const ArrowColumn& column = part.columns[c];
      records.begin_field(places_[c], column.lists != nullptr);
      const Range places = places_of(column, record);
      for (int64_t i = places.begin; i < places.end; ++i) records.add(value_at(column, i));
    }
  }
}

std::string ParquetRecords::where(int64_t record) const {
  return fmt::format("{}, record {}", path_, record);
}

}  // namespace dlrm
