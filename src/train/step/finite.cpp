#include "finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "train/checkpoint/checkpoint_files.h"

namespace dlrm {

namespace {

/// Adding one to the exponent carries into the sign bit if all its bits are set.
bool all_finite(View<const float> values) {
  uint32_t carried = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    carried |= (bits & 0x7fffffffu) + 0x00800000u;
  }
  return (carried & 0x80000000u) == 0;
}

}  // namespace

std::optional<size_t> find_non_finite(View<const float> values) {
  if (all_finite(values)) return {};
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  return static_cast<size_t>(bad - values.begin());
}

std::string first_bad_row(const std::vector<TensorShard>& shards) {
  std::vector<float> chunk;
  for (const TensorShard& shard : shards) {
    const int64_t columns = shard.columns.size();
    if (columns == 0) continue;
    const int64_t most =
        std::max<int64_t>(1, static_cast<int64_t>(kCheckpointChunk / sizeof(float)) / columns);
    for (int64_t row = 0; row < shard.rows.size(); row += most) {
      const int64_t count = std::min(most, shard.rows.size() - row);
      chunk.resize(static_cast<size_t>(count * columns));
      shard.read(row, count, chunk.data());
      const auto bad = find_non_finite(View<const float>(chunk));
      if (!bad) continue;
      const int64_t at = shard.rows.begin + row + static_cast<int64_t>(*bad) / columns;
      return fmt::format("{}, row {}", shard.path, at);
    }
  }
  return "";
}

}  // namespace dlrm
