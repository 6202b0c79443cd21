#include "dlrm/wire/sample_code.h"

namespace dlrm {
namespace {

/// Sets bits that are 0, from bit `at` on.
void add_bits(char* to, int64_t at, uint64_t bits) {
  for (bits <<= at % 8, at /= 8; bits != 0; bits >>= 8, ++at) {
    to[at] = static_cast<char>(static_cast<uint8_t>(to[at]) | (bits & 0xff));
  }
}

}  // namespace

void write_samples(View<const int32_t> numbers, int64_t samples, char* to) {
  const SampleCode code(samples, static_cast<int64_t>(numbers.size()));
  if (code.ids == 0) return;
  std::memset(to, 0, static_cast<size_t>(code.bytes()));
  const uint64_t low_mask = (uint64_t{1} << code.low_bits) - 1;
  for (int64_t k = 0; k < code.ids; ++k) {
    const auto number = static_cast<uint64_t>(numbers[static_cast<size_t>(k)]);
    if (code.low_bits > 0) add_bits(to, k * code.low_bits, number & low_mask);
    add_bits(to, code.first_high() + static_cast<int64_t>(number >> code.low_bits) + k, 1);
  }
}

}  // namespace dlrm
