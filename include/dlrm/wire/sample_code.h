#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "dlrm/core/view.h"

namespace dlrm {

/// The samples of a group's ids in a message: the number of each id's sample, in ascending order,
/// in the code of Elias and Fano. A bag without ids costs at most one bit. An id costs about 2 +
/// log2(samples / ids) bits, or one bit if there are more ids than samples.
///
///   low   the lowest low_bits of each number
///   high  bit (number >> low_bits) + k is 1 for number k, the others are 0
///
/// Bits are counted from the lowest of each byte. Without ids the code is empty.
struct SampleCode {
  SampleCode(int64_t samples_of_rank, int64_t ids_of_group)
      : samples(samples_of_rank), ids(ids_of_group) {
    if (ids == 0) return;
    if (samples > ids) low_bits = std::bit_width(static_cast<uint64_t>(samples / ids)) - 1;
    high_bits = ids + ((samples - 1) >> low_bits);
  }
  int64_t first_high() const { return ids * low_bits; }
  int64_t bytes() const { return (first_high() + high_bits + 7) / 8; }

  int64_t samples;
  int64_t ids;
  int low_bits = 0;
  int64_t high_bits = 0;
};

/// Writes SampleCode(samples, numbers.size()).bytes() bytes. The numbers ascend and are in [0,
/// samples).
void write_samples(View<const int32_t> numbers, int64_t samples, char* to);

/// Calls visit(number) for each of `ids` numbers. Reads the bytes of the code and no others.
/// Returns false if the code is damaged: numbers are missing, descend or are not below `samples`.
/// Numbers that were visited before are in order.
template <class Visit>
[[nodiscard]] bool read_samples(const char* from, int64_t samples, int64_t ids, Visit&& visit) {
  const SampleCode code(samples, ids);
  constexpr int64_t kChunk = 56;
  // Returns the bits from `bit` on, at least kChunk of them. Bits behind the code are 0.
  const auto bits_at = [from, bytes = code.bytes()](int64_t bit) {
    uint64_t word = 0;
    const int64_t left = bytes - bit / 8;
    if (left >= 8) {
      std::memcpy(&word, from + bit / 8, 8);
    } else {
      std::memcpy(&word, from + bit / 8, static_cast<size_t>(left));
    }
    return word >> (bit % 8);
  };
  const uint64_t low_mask = (uint64_t{1} << code.low_bits) - 1;
  int64_t found = 0, last = 0;
  for (int64_t chunk = 0; chunk < code.high_bits && found < ids; chunk += kChunk) {
    uint64_t ones = bits_at(code.first_high() + chunk) & ((uint64_t{1} << kChunk) - 1);
    for (; ones != 0 && found < ids; ones &= ones - 1, ++found) {
      int64_t number = chunk + std::countr_zero(ones) - found;
      if (code.low_bits > 0) {
        const uint64_t low = bits_at(found * code.low_bits) & low_mask;
        number = number << code.low_bits | static_cast<int64_t>(low);
      }
      if (number < last || number >= samples) return false;
      last = number;
      visit(static_cast<int32_t>(number));
    }
  }
  return found == ids;
}

}  // namespace dlrm
