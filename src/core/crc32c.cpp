#include "dlrm/core/crc32c.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace dlrm {

namespace {

// Polynomials over GF(2) modulo the CRC's. The highest bit of a word is the coefficient of x⁰.
constexpr uint32_t kPolynomial = 0x82f63b78u;
constexpr uint32_t kOne = 0x80000000u;

uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ (b & 1 ? kPolynomial : 0);
  }
  return product;
}

/// x to the power of 8·bytes, by squaring.
uint32_t shift_by(int64_t bytes) {
  uint32_t result = kOne, power = kOne >> 8;
  for (; bytes > 0; bytes >>= 1) {
    if (bytes & 1) result = multiply(result, power);
    power = multiply(power, power);
  }
  return result;
}

}  // namespace

void Crc32c::add(const void* data, size_t bytes) {
  // The library takes an int count and a non-const pointer. It only reads.
  constexpr size_t kMost = size_t{1} << 30;
  auto* at = const_cast<unsigned char*>(static_cast<const unsigned char*>(data));
  while (bytes > 0) {
    const size_t part = std::min(bytes, kMost);
    state_ = crc32_iscsi(at, static_cast<int>(part), state_);
    at += part;
    bytes -= part;
  }
}

void Crc32c::append(const Crc32c& crc, int64_t bytes) {
  // The state is linear in the state before. `crc` began with all bits set.
  state_ = multiply(state_ ^ 0xffffffffu, shift_by(bytes)) ^ crc.state_;
}

}  // namespace dlrm
