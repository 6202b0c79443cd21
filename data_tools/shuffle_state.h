#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bucket_file.h"
#include "sample_codec.h"

namespace dlrm {

/// How far a shuffle has come, as its file `state` says.
struct ShuffleState {
  std::string task;     ///< one line that identifies inputs and options
  int64_t samples = 0;  ///< the first so many are in their buckets
  SampleSum sum;        ///< of those
  std::vector<Segment> segments;
};

/// Replaces the file, whole and synced.
void write_shuffle_state(const std::string& path, const ShuffleState& state);
/// No value if there is no file, or if it is not whole.
std::optional<ShuffleState> read_shuffle_state(const std::string& path);

}  // namespace dlrm
