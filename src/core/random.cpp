#include "dlrm/core/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <Random123/philox.h>

namespace dlrm {

std::array<uint32_t, 4> philox(uint64_t key, std::array<uint32_t, 4> counter) {
  const r123::Philox4x32::ctr_type c{{counter[0], counter[1], counter[2], counter[3]}};
  const r123::Philox4x32::key_type k{
      {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}};
  const auto r = r123::Philox4x32()(c, k);
  return {r[0], r[1], r[2], r[3]};
}

uint64_t stream_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  const auto r =
      philox(seed, {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32), 0, 1});
  return (static_cast<uint64_t>(r[1]) << 32) | r[0];
}

double normal_at(uint64_t key, uint64_t row, uint32_t column) {
  const auto r =
      philox(key, {static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32), column / 2, 2});
  const double u = uniform01(r[0], r[1]);
  const double v = uniform01(r[2], r[3]);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u));
  const double angle = 2.0 * std::numbers::pi * v;
  return radius * (column % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

uint16_t rounding_bits(uint64_t key, uint64_t row, int64_t column, uint64_t step) {
  const auto words = philox(key, {static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32),
                                  static_cast<uint32_t>(column / 8), static_cast<uint32_t>(step)});
  const uint32_t word = words[static_cast<size_t>(column % 8 / 2)];
  return static_cast<uint16_t>(column % 2 == 0 ? word : word >> 16);
}

void uniform_row(uint64_t key, uint64_t row, int64_t column, int64_t count, float bound,
                 float* out) {
  std::array<uint32_t, 4> words{};
  int64_t drawn = -1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = column + i;
    if (c / 4 != drawn) {
      drawn = c / 4;
      words = philox(key, {static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32),
                           static_cast<uint32_t>(drawn), 0});
    }
    const float u = uniform01(words[static_cast<size_t>(c % 4)]);
    out[i] = (u * 2.0f - 1.0f) * bound;
  }
}

void normal_row(uint64_t key, uint64_t row, int64_t column, int64_t count, float scale,
                float* out) {
  const float factor = normal_factor(scale);
  for (int64_t i = 0; i < count; ++i) {
    const auto words = philox(key, {static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32),
                                    static_cast<uint32_t>(column + i), 1});
    out[i] = static_cast<float>(sum_of_halves(words)) * factor;
  }
}

void initial_row(const RowInit& init, uint64_t key, uint64_t row, int64_t column, int64_t count,
                 float* out) {
  switch (init.type) {
    case InitType::kUniform:
      return uniform_row(key, row, column, count, init.scale, out);
    case InitType::kNormal:
      return normal_row(key, row, column, count, init.scale, out);
    case InitType::kZero:
      std::fill_n(out, count, 0.0f);
  }
}

}  // namespace dlrm
