#include <array>
#include <limits>
#include <unordered_map>
#include <utility>

#include "dlrm/core/error.h"

#include "keys.h"

namespace dlrm {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Value value_at(const ArrowColumn& column, int64_t place) {
  Value value;
  if (column.there != nullptr && column.there[place] == 0) return value;
  const int64_t at = column.codes != nullptr ? column.codes[place] : place;
  switch (column.kind) {
    case ArrowColumn::kMissing:
      break;
    case ArrowColumn::kBool:
      value.kind = Value::Kind::kBool;
      value.integer = static_cast<const uint8_t*>(column.values)[at];
      break;
    case ArrowColumn::kInteger:
      value.kind = Value::Kind::kInteger;
      value.integer = static_cast<const int64_t*>(column.values)[at];
      break;
    case ArrowColumn::kFloat:
      value.kind = Value::Kind::kNumber;
      value.number = static_cast<const float*>(column.values)[at];
      value.single = true;
      break;
    case ArrowColumn::kDouble:
      value.kind = Value::Kind::kNumber;
      value.number = static_cast<const double*>(column.values)[at];
      break;
    case ArrowColumn::kText:
      value.kind = Value::Kind::kText;
      value.text = {column.bytes + column.ends[at],
                    static_cast<size_t>(column.ends[at + 1] - column.ends[at])};
      break;
  }
  return value;
}

namespace {

/// numbers[i] = number(value i), or `otherwise` where that throws.
template <class T, class Number>
void fill(const ArrowColumn& column, T* numbers, T otherwise, std::vector<RefusedValue>& refused,
          const Number& number) {
  for (int64_t i = 0; i < column.count; ++i) {
    const Value value = value_at(column, i);
    try {
      numbers[i] = number(value);
    } catch (const Error& error) {
      numbers[i] = otherwise;
      refused.push_back({i, error.what()});
    }
  }
}

}  // namespace

/// One feature of some records, in blocks of values that are looked up together.
class Encoder::ColumnRun {
 public:
  ColumnRun(const Encoder& encoder, const Preprocessing::Sparse& feature, const ArrowColumn& column,
            bool keys, EncodedColumn& out)
      : encoder_(encoder),
        feature_(feature),
        column_(column),
        dictionary_(feature.encoding == Preprocessing::Encoding::kDictionary),
        to_keys_(keys && dictionary_),
        out_(out) {}

  void run() {
    const auto places = static_cast<size_t>(column_.count);
    to_keys_ ? out_.numbers.reserve(places) : out_.ids.reserve(places);
    if (feature_.list) {
      lists();
    } else if (column_.codes != nullptr) {
      return coded();
    } else {
      for (int64_t i = 0; i < column_.count; ++i) add(value_at(column_, i), i);
    }
    flush();
    if (to_keys_) out_.keys.assign(out_.own.texts().begin(), out_.own.texts().end());
  }

 private:
  static constexpr size_t kBlock = 256;

  void lists() {
    std::vector<Value> items;
    const int64_t records = column_.lists != nullptr ? column_.records : column_.count;
    out_.offsets.reserve(static_cast<size_t>(records) + 1);
    out_.offsets.push_back(0);
    for (int64_t i = 0; i < records; ++i) {
      if (column_.lists != nullptr) {
        const int64_t first = column_.lists[i];
        const auto [begin, end] =
            kept_items(*feature_.list, static_cast<size_t>(column_.lists[i + 1] - first));
        for (size_t k = begin; k < end; ++k) {
          add(value_at(column_, first + static_cast<int64_t>(k)), i);
        }
      } else {
        items.clear();
        try {
          append_items(*feature_.list, value_at(column_, i), items);
        } catch (const Error& error) {
          out_.refused.push_back({i, error.what()});
        }
        const auto [begin, end] = kept_items(*feature_.list, items.size());
        for (size_t k = begin; k < end; ++k) add(items[k], i);
      }
      out_.offsets.push_back(added_);
    }
  }

  /// Each different value is encoded once, when it appears first.
  void coded() {
    constexpr int64_t kUnseen = -2, kRefused = -1;
    const auto missing = static_cast<size_t>(column_.coded);  // the place of missing values
    std::vector<int64_t> known(missing + 1, kUnseen);
    std::unordered_map<size_t, std::string> problems;
    for (int64_t i = 0; i < column_.count; ++i) {
      const bool there = column_.there == nullptr || column_.there[i] != 0;
      const size_t code = there ? static_cast<size_t>(column_.codes[i]) : missing;
      if (known[code] == kUnseen) {
        try {
          known[code] = encoded(value_at(column_, i));
        } catch (const Error& error) {
          problems[code] = error.what();
          known[code] = kRefused;
        }
      }
      if (known[code] == kRefused) out_.refused.push_back({i, problems[code]});
      push(known[code]);
    }
  }

  /// The id of a value, or the number of a new key.
  int64_t encoded(const Value& value) {
    const Key key = encoder_.key_of(feature_, value, /*in_list=*/false, rooms_[0]);
    if (!to_keys_) return encoder_.id_of(feature_, key);
    std::string_view text = key.bytes(feature_);
    if (text.data() != value.text.data() || text.empty()) text = kept(text);
    out_.keys.push_back(text);
    return std::ssize(out_.keys) - 1;
  }

  std::string_view kept(std::string_view text) {
    int32_t number = 0;
    out_.own.number_all({&text, 1}, 0, &number);
    return out_.own.texts()[static_cast<size_t>(number)];
  }

  void add(const Value& value, int64_t record) {
    ++added_;
    try {
      block_[filled_] =
          encoder_.key_of(feature_, value, feature_.list.has_value(), rooms_[filled_]);
      if (++filled_ == kBlock) flush();
    } catch (const Error& error) {
      flush();
      push(-1);
      out_.refused.push_back({record, error.what()});
    }
  }

  void push(int64_t id) {
    if (to_keys_) {
      out_.numbers.push_back(static_cast<int32_t>(id));
    } else {
      out_.ids.push_back(id);
    }
  }

  void flush() {
    const size_t count = std::exchange(filled_, 0);
    if (!dictionary_) {
      for (size_t i = 0; i < count; ++i) out_.ids.push_back(encoder_.id_of(feature_, block_[i]));
      return;
    }
    std::array<std::string_view, kBlock> texts;
    for (size_t i = 0; i < count; ++i) texts[i] = block_[i].bytes(feature_);
    if (to_keys_) {
      const size_t before = out_.numbers.size();
      out_.numbers.resize(before + count);
      out_.own.number_all({texts.data(), count}, 0, out_.numbers.data() + before);
      return;
    }
    std::array<int32_t, kBlock> numbers;
    encoder_.preprocessing_.dictionaries[feature_.dictionary].values.find_all({texts.data(), count},
                                                                              1, numbers.data());
    out_.ids.insert(out_.ids.end(), numbers.begin(), numbers.begin() + count);
  }

  const Encoder& encoder_;
  const Preprocessing::Sparse& feature_;
  const ArrowColumn& column_;
  const bool dictionary_, to_keys_;
  EncodedColumn& out_;
  std::array<Key, kBlock> block_;
  std::array<std::string, kBlock> rooms_;
  size_t filled_ = 0;
  int64_t added_ = 0;
};

void Encoder::dense_column(size_t column, const ArrowColumn& values, float* numbers,
                           std::vector<RefusedValue>& refused) const {
  const Preprocessing::Dense& dense = preprocessing_.dense[column];
  fill(values, numbers, 0.0f, refused, [&](const Value& value) {
    return finished(dense, scaled(dense, number_of(value), value), value);
  });
}

void Encoder::plain_dense_column(size_t column, const ArrowColumn& values, double* numbers,
                                 std::vector<RefusedValue>& refused) const {
  const Preprocessing::Dense& dense = preprocessing_.dense[column];
  fill(values, numbers, 0.0, refused,
       [&](const Value& value) { return scaled(dense, number_of(value), value); });
}

EncodedColumn Encoder::sparse_column(size_t feature, const ArrowColumn& values, bool keys) const {
  EncodedColumn result;
  ColumnRun(*this, preprocessing_.sparse[feature], values, keys, result).run();
  return result;
}

void Encoder::number_column(const ArrowColumn& values, double* numbers,
                            std::vector<RefusedValue>& refused) const {
  fill(values, numbers, kNaN, refused, [&](const Value& value) { return number_of(value); });
}

EncodedColumn text_column(const ArrowColumn& values) {
  Preprocessing texts;
  texts.dictionaries.emplace_back();
  texts.sparse.emplace_back();
  return Encoder(std::move(texts)).sparse_column(0, values, /*keys=*/true);
}

}  // namespace dlrm
