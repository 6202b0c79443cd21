#pragma once
#include <cstdint>
#include <string_view>

namespace dlrm {

/// Reads the plain numbers that are in most logs: -12, 3.5, 1e-3. Returns false for every other
/// text, also for some that are numbers. What is read is what Arrow reads, correctly rounded.
bool read_plain_number(std::string_view text, double& value);
/// An integer of up to 18 digits without leading zeros.
bool read_plain_integer(std::string_view text, int64_t& value);

}  // namespace dlrm
