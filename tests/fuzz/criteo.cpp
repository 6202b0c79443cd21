// A Criteo log, plain or gzip. Chunks of any size must give the same rows, and those must be the
// lines that explain_criteo_line() finds no fault with.
#include <cmath>

#include "dlrm/data/criteo_parse.h"

#include "fuzz.h"

namespace dlrm::fuzz {
namespace {

/// The rows of a log and its lines, one after the other.
struct Rows {
  std::string text;
  int64_t lines = 0;
  std::vector<float> numbers;  // the label and 13 numbers of each row
  std::vector<CategoryValue> values;

  bool operator==(const Rows&) const = default;
};

void append(const TextChunk& chunk, const CriteoBlock& block, Rows& rows) {
  if (chunk.size < 1 || chunk.end()[-1] != '\n') fail("a chunk does not end with a line");
  rows.text.append(chunk.begin(), chunk.end());
  rows.lines += block.lines;
  for (size_t row = 0; row < static_cast<size_t>(block.rows); ++row) {
    rows.numbers.push_back(block.labels[row]);
    for (size_t i = 0; i < kCriteoNumbers; ++i) {
      const float x = block.dense[row * kCriteoNumbers + i];
      if (!std::isfinite(x)) fail("a number is not finite");
      rows.numbers.push_back(x);
    }
    for (const auto& values : block.values) {
      if (values[row] > kMissingValue) fail("{} is no category", values[row]);
      rows.values.push_back(values[row]);
    }
  }
}

bool read(const std::string& path, int64_t chunk_bytes, Rows& rows) {
  return accepted(ExitCode::kUsage, [&] {
    TextChunks chunks({path}, chunk_bytes);
    TextChunk chunk;
    CriteoBlock block;
    while (chunks.next(chunk)) {
      parse_criteo(chunk, block);
      append(chunk, block, rows);
    }
  });
}

void check_lines(const Rows& rows) {
  const size_t count = rows.values.size() / kCriteoCategories;
  size_t good = 0;
  const std::string_view text(rows.text);
  for (const std::string_view line : split(text.substr(0, text.size() - 1), '\n')) {
    good += explain_criteo_line(line).empty() ? 1 : 0;
  }
  if (good != count) fail("{} lines are well-formed, {} are rows", good, count);
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm::fuzz;
  constexpr const char* kPath = "fuzz.txt";
  write_file(kPath, {reinterpret_cast<const char*>(data), size});
  Rows whole, parts;
  const bool readable = read(kPath, 1 << 16, whole);
  const int64_t chunk_bytes = 1 + static_cast<int64_t>(size % 257);
  if (read(kPath, chunk_bytes, parts) != readable) fail("readable in some chunks only");
  if (!readable) return 0;
  if (parts != whole) fail("chunks of {} bytes give other rows", chunk_bytes);
  check_lines(whole);
  return 0;
}
