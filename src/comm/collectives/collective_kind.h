#pragma once
#include <cstdint>
#include <string_view>

namespace dlrm::comm {

/// Returns a number for the collective `name`. It identifies a call together with the sequence
/// number. Ranks in different calls therefore wait instead of reading each other's bytes, and the
/// watchdog can name the calls.
constexpr uint32_t kind_of(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash >> 8;
}

}  // namespace dlrm::comm
