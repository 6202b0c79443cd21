// The time in which one core parses a record of JSON and encodes it, as dlrm-infer does for
// {"records": [...]}: numbers, and texts that dictionaries have. A line for bodies of 1, 16 and 256
// records.
//
//   record_time [NUMBERS [FEATURES [VALUES]]]   (13 numbers, 27 dictionaries of 20000 values)
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "dlrm/core/hash.h"
#include "dlrm/core/random.h"
#include "dlrm/data/record_inputs.h"

#include "encode/gzip_bytes.h"

namespace dlrm {
namespace {

struct Shape {
  int64_t numbers, features, values;
};

std::string value_of(int64_t feature, int64_t value) {
  return fmt::format("{:x}", hash_bytes(&value, sizeof(value)) ^ static_cast<uint64_t>(feature))
      .substr(0, 6 + static_cast<size_t>(value % 8));
}

RecordInputs inputs_of_shape(const Shape& shape) {
  std::string dense, sparse, dictionaries, values;
  ModelConfig model;
  model.dense_features = shape.numbers;
  for (int64_t i = 0; i < shape.numbers; ++i) {
    dense +=
        fmt::format(R"({}{{"column": "number_{}", "fill": 0, "log": true}})", i > 0 ? "," : "", i);
  }
  for (int64_t f = 0; f < shape.features; ++f) {
    sparse += fmt::format(
        R"({}{{"feature": "text_{}", "column": "text_{}", "values": "text", "encoding": "dictionary", "dictionary": "{}"}})",
        f > 0 ? "," : "", f, f, f);
    std::vector<std::string> all;
    for (int64_t v = 0; v < shape.values; ++v) all.push_back(value_of(f, v));
    std::ranges::sort(all);
    const auto same = std::ranges::unique(all);
    all.erase(same.begin(), same.end());
    dictionaries += fmt::format(R"({}{{"name": "{}", "values": "text", "count": {}}})",
                                f > 0 ? "," : "", f, all.size());
    for (const std::string& value : all) {
      const auto size = static_cast<uint32_t>(value.size());
      values.append(reinterpret_cast<const char*>(&size), sizeof(size));
    }
    for (const std::string& value : all) values += value;
    TableConfig& table = model.tables.emplace_back();
    table.rows = shape.values + 1;
    table.features.resize(1);
    table.features[0].name = fmt::format("text_{}", f);
  }
  const std::string head = fmt::format(
      R"({{"format": "dlrm-preprocessing", "version": 1, "missing": [""], "dense": [{}], "sparse": [{}], "dictionaries": [{}]}})",
      dense, sparse, dictionaries);
  return {parse_preprocessing(gzip_bytes(head + "\n" + values), "made"), inputs_of(model), "made"};
}

std::string body_of(const Shape& shape, int64_t first, int64_t count) {
  const uint64_t key = stream_key(1, "record_time");
  std::string text = R"({"records": [)";
  for (int64_t r = first; r < first + count; ++r) {
    uint32_t drawn = 0;
    const auto draw = [&](int64_t most) {
      const auto words = philox(key, {static_cast<uint32_t>(r), drawn++, 0, 0});
      return static_cast<int64_t>(uniform01(words[0], words[1]) * static_cast<double>(most));
    };
    text += r > first ? ", {" : "{";
    for (int64_t i = 0; i < shape.numbers; ++i) {
      text += fmt::format(R"({}"number_{}": {})", i > 0 ? ", " : "", i, draw(10000));
    }
    for (int64_t f = 0; f < shape.features; ++f) {
      text += fmt::format(R"({}"text_{}": "{}")", f > 0 || shape.numbers > 0 ? ", " : "", f,
                          value_of(f, draw(shape.values)));
    }
    text += "}";
  }
  return text + "]}";
}

/// Microseconds a record: the least of some rounds.
double time_of(const RecordInputs& inputs, const std::vector<std::string>& bodies,
               int64_t records) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  for (int round = 0; round < 15; ++round) {
    int64_t seen = 0;
    const auto begin = Clock::now();
    for (const std::string& body : bodies) {
      Samples samples;
      inputs.append(read_records(body, inputs.columns(), records), inputs.columns(), samples);
      seen += samples.size;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (seen != records) throw std::runtime_error("records were lost");
    least = std::min(least, seconds / static_cast<double>(records) * 1e6);
  }
  return least;
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  const auto argument = [&](int i, int64_t otherwise) {
    return i < argc ? std::strtoll(argv[i], nullptr, 10) : otherwise;
  };
  const dlrm::Shape shape{argument(1, 13), argument(2, 27), argument(3, 20000)};
  constexpr int64_t kRecords = 8192;
  const dlrm::RecordInputs inputs = dlrm::inputs_of_shape(shape);
  for (const int64_t size : {1, 16, 256}) {
    std::vector<std::string> bodies;
    for (int64_t r = 0; r < kRecords; r += size) bodies.push_back(dlrm::body_of(shape, r, size));
    fmt::print("{:3} records a body: {:.2f} us a record\n", size,
               dlrm::time_of(inputs, bodies, kRecords));
  }
  return 0;
}
