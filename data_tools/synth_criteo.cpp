#include "synth_criteo.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/core.h>

#include "dlrm/core/random.h"
#include "dlrm/data/synthetic_draws.h"

namespace dlrm {
namespace {

// The largest log(x+1) of each number, and the rate at which it is missing.
constexpr std::array<double, kCriteoNumbers> kLogRange{2.0, 4.0, 6.0, 5.0, 7.0, 3.0, 2.5,
                                                       5.0, 6.0, 2.0, 3.0, 4.0, 5.0};
constexpr std::array<float, kCriteoNumbers> kNumberMissing{
    0.4f, 0.0f, 0.2f, 0.2f, 0.05f, 0.2f, 0.05f, 0.0f, 0.05f, 0.4f, 0.05f, 0.7f, 0.2f};
// The number that can be -1, as in Criteo's logs.
constexpr int64_t kNegative = 1;

constexpr std::array<int64_t, kCriteoCategories> kVocabulary{
    40,   100, 25,  60,    150, 30, 80,    50, 3,    10, 300, 1000,  24,
    5000, 12,  633, 20000, 4,   27, 50000, 18, 2000, 15, 305, 30000, 105};
constexpr std::array<float, kCriteoCategories> kCategoryMissing{
    0, 0, 0.03f, 0, 0, 0.1f, 0,    0, 0,    0, 0,     0.03f, 0,
    0, 0, 0.03f, 0, 0, 0.4f, 0.4f, 0, 0.7f, 0, 0.03f, 0.4f,  0.4f};
constexpr int64_t kDraws = kCriteoNumbers + kCriteoCategories;

/// A bijection of 32-bit words whose results look random. It multiplies by odd numbers and combines
/// upper bits with lower bits by xor.
uint32_t scatter(uint32_t x) {
  x = (x ^ (x >> 15)) * 0x2c9277b5u;
  x = (x ^ (x >> 13)) * 0x5f356495u;
  return x ^ (x >> 16);
}

char* put_hex(char* at, uint32_t word) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 28; shift >= 0; shift -= 4) *at++ = kDigits[(word >> shift) & 15u];
  return at;
}

}  // namespace

RunConfig criteo_shape() {
  RunConfig config;
  config.model.dense_features = kCriteoNumbers;
  for (size_t c = 0; c < kVocabulary.size(); ++c) {
    TableConfig table;
    table.name = table.group = fmt::format("C{}", c + 1);
    table.rows = kVocabulary[c];
    table.dim = 1;
    table.features.push_back({table.name, 1, Pooling::kSum});
    config.model.tables.push_back(std::move(table));
  }
  return config;
}

void make_criteo(uint64_t seed, int64_t first, Batch& batch, CriteoNumbers& block) {
  const auto b = static_cast<size_t>(batch.size());
  block.draws.resize(b * kDraws);
  draw_uniform(stream_key(seed, "criteo/missing"), 0, static_cast<uint64_t>(first * kDraws),
               static_cast<int64_t>(b) * kDraws, 1.0f, block.draws.data());
  block.numbers.resize(b * kCriteoNumbers);
  block.unit.resize(b * kCriteoNumbers);
  for (size_t i = 0; i < b; ++i) {
    for (size_t c = 0; c < kCriteoNumbers; ++c) {
      const size_t at = i * kCriteoNumbers + c;
      const bool missing = block.draws[i * kDraws + c] < kNumberMissing[c];
      const double u = static_cast<double>(batch.dense[at]) / 100.0;
      int32_t number = static_cast<int32_t>(std::exp(u * kLogRange[c])) - 1;
      if (c == kNegative && number == 0 && u < 0.1) number = -1;
      block.numbers[at] = missing ? kMissing : number;
      const double known = missing || number < 0 ? 0.0 : number;
      block.unit[at] = static_cast<float>(std::log(known + 1.0) / kLogRange[c]);
    }
  }
  for (size_t c = 0; c < kCriteoCategories; ++c) {
    if (kCategoryMissing[c] == 0.0f) continue;
    for (size_t i = 0; i < b; ++i) {
      const bool missing = block.draws[i * kDraws + kCriteoNumbers + c] < kCategoryMissing[c];
      if (missing) batch.ids[c * b + i] = -1;
    }
  }
}

void append_criteo_lines(const Batch& batch, const CriteoNumbers& block, int64_t from, int64_t to,
                         std::string& text) {
  // A label, 13 numbers of up to 11 characters, 26 words of 8, and separators.
  constexpr size_t kLongestLine = 2 + 13 * 12 + 26 * 9;
  const auto b = static_cast<size_t>(batch.size());
  const size_t start = text.size();
  text.resize(start + static_cast<size_t>(to - from) * kLongestLine);
  char* at = text.data() + start;
  for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
    *at++ = batch.labels[i] > 0.5f ? '1' : '0';
    for (size_t c = 0; c < kCriteoNumbers; ++c) {
      *at++ = '\t';
      const int32_t number = block.numbers[i * kCriteoNumbers + c];
      if (number != kMissing) at = std::to_chars(at, at + 11, number).ptr;
    }
    for (size_t c = 0; c < kCriteoCategories; ++c) {
      *at++ = '\t';
      const int64_t id = batch.ids[c * b + i];
      if (id >= 0)
        at = put_hex(at, scatter(static_cast<uint32_t>(id * 64 + static_cast<int64_t>(c))));
    }
    *at++ = '\n';
  }
  text.resize(static_cast<size_t>(at - text.data()));
}

}  // namespace dlrm
