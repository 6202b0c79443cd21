#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dlrm {

/// Element types. A switch over this enum must name all of them; otherwise the build fails
/// (-Werror=switch).
enum class DType : uint8_t { kFloat32, kBFloat16, kFloat16 };

constexpr size_t size_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
  }
  return 0;
}
constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
  }
  return "";
}

/// bfloat16 as stored: the upper half of a float. Conversion rounds to nearest, ties to even; NaN
/// stays NaN.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// Rounds to one of the two neighbouring bf16 values. The mean over all values of `random` is
/// `value`. The result is the upper half of the sum of the value's bits and `random`. NaN, and
/// values that bf16 can represent, do not change.
inline BFloat16 round_stochastically(float value, uint16_t random) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return BFloat16(value);
  BFloat16 rounded;
  rounded.bits = static_cast<uint16_t>((u + random) >> 16);
  return rounded;
}

/// IEEE half precision as stored. Conversion rounds to nearest, ties to even; overflow gives
/// infinity.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;
};

}  // namespace dlrm
