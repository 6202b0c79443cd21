#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace dlrm {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
/// Random123). A pure function of key and counter: any rank can draw any element of any tensor, in
/// any order.
std::array<uint32_t, 4> philox(uint64_t key, std::array<uint32_t, 4> counter);

/// Key of a named stream of numbers: mixes `seed` with the FNV-1a hash of `name`, so that tensors
/// of different names draw independently.
uint64_t stream_key(uint64_t seed, std::string_view name);

/// [0, 1) in steps of 2^-24: (u >> 8) · 2^-24, exact in float.
inline float uniform01(uint32_t u) { return static_cast<float>(u >> 8) * 0x1p-24f; }

/// [0, 1) in steps of 2^-53.
inline double uniform01(uint32_t high, uint32_t low) {
  return static_cast<double>(((static_cast<uint64_t>(high) << 32) | low) >> 11) * 0x1p-53;
}

/// Element (row, column) of the standard normal field of `key`: Box–Muller in fp64, on the host.
double normal_at(uint64_t key, uint64_t row, uint32_t column);

/// Columns [column, column + count) of row `row` of the field U(-bound, bound) of `key`. Element c
/// of a row is word c mod 4 of counter {row low, row high, c / 4, 0}; the value is (u·2 - 1)·bound
/// with each operation rounded to float.
void uniform_row(uint64_t key, uint64_t row, int64_t column, int64_t count, float bound,
                 float* out);

/// How the rows of a table are filled before training.
enum class InitType : uint8_t { kUniform, kNormal, kZero };
struct RowInit {
  InitType type = InitType::kUniform;
  float scale = 0;  ///< the bound of kUniform, the standard deviation of kNormal
};

/// The factor on sum_of_halves() that makes numbers of standard deviation `scale`: the sum of eight
/// uniform 16-bit numbers has the variance 8·(2^32 - 1)/12.
inline float normal_factor(float scale) { return static_cast<float>(scale / 53509.91992145008); }

/// The sum of the eight 16-bit halves of four words, less its mean 8·32767.5. Exact in float.
inline int32_t sum_of_halves(const std::array<uint32_t, 4>& words) {
  uint32_t sum = 0;
  for (const uint32_t word : words) sum += (word & 0xffff) + (word >> 16);
  return static_cast<int32_t>(sum) - 4 * 0xffff;
}

/// Columns [column, column + count) of row `row` of a field of `key` that is nearly normal, with
/// mean 0 and standard deviation `scale`. Element c of a row is sum_of_halves() of counter
/// {row low, row high, c, 1} times normal_factor(scale), so it is at most √24·scale from 0.
void normal_row(uint64_t key, uint64_t row, int64_t column, int64_t count, float scale, float* out);

/// uniform_row(), normal_row() or zeros.
void initial_row(const RowInit& init, uint64_t key, uint64_t row, int64_t column, int64_t count,
                 float* out);

/// The 16 random bits that round element (row, column) of the field `key` at `step`. They come from
/// counter {row low, row high, column / 8, step low}. Each of its four words serves two columns:
/// the even column takes the lower half, the odd column the upper half.
uint16_t rounding_bits(uint64_t key, uint64_t row, int64_t column, uint64_t step);

}  // namespace dlrm
