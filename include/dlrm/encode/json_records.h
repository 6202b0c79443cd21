#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dlrm/encode/encoder.h"

namespace dlrm {

/// The places of columns by their names: those that an Encoder needs, and others that are asked
/// for.
class Columns {
 public:
  /// Those of the preprocessing, then those of `more` that are not among them.
  Columns(const Preprocessing& preprocessing, const std::vector<std::string>& more);

  size_t size() const { return place_.size(); }
  /// -1 if there is none of this name.
  int32_t find(std::string_view name) const;
  /// Whether this is a dense column, and that of no feature.
  bool is_number(std::string_view name) const;
  size_t dense(size_t column) const { return dense_[column]; }
  size_t sparse(size_t feature) const { return sparse_[feature]; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  size_t add(const std::string& name);

  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> place_;
  std::vector<size_t> dense_, sparse_;
};

/// Records, by the columns of a Columns. Texts are their own.
class Records {
 public:
  explicit Records(size_t columns) : columns_(columns) {}

  size_t size() const { return fields_.size() / columns_; }
  Field field(size_t record, size_t column) const;
  bool has(size_t record, size_t column) const { return place(record, column).there; }

  // To fill it:
  /// Makes room for texts of so many bytes together.
  void reserve_text(size_t bytes);
  void begin_record() { fields_.resize(fields_.size() + columns_); }
  /// Drops the last record.
  void drop_record() { fields_.resize(fields_.size() - columns_); }
  /// False if the last record has this field already.
  bool begin_field(size_t column, bool listed);
  /// Appends to the field that began last. The text is copied, into room that was reserved.
  void add(Value value);

 private:
  struct Place {
    uint32_t begin = 0, count = 0;
    bool listed = false, there = false;
  };
  const Place& place(size_t record, size_t column) const {
    return fields_[record * columns_ + column];
  }

  size_t columns_;
  std::vector<Place> fields_;
  std::vector<Value> values_;
  std::vector<std::unique_ptr<char[]>> texts_;
  char* text_ = nullptr;  // where the next text goes
  size_t text_left_ = 0;  // bytes
  size_t last_ = 0;       // the field that began last
};

/// What {"records": [{...}], "shared": {...}} has. A record has the shared fields, too, where it
/// has none of its own.
struct SharedRecords {
  Records records, shared;  ///< `shared` has no record, or one
};
/// A usage_error names record and field: `records[3].tags: an object; needs ...`, or says that
/// there are more records than `most`. Fields that are no column are left out.
SharedRecords read_records(std::string_view json, const Columns& columns, int64_t most);

/// What a record has in a column, as JSON: null if it is missing or NaN, the text "inf" or "-inf"
/// if it is infinite.
std::string json_text(const Field& field);

/// Appends the record that an object of JSON is.
void append_record(std::string_view json, const Columns& columns, Records& records);

}  // namespace dlrm
