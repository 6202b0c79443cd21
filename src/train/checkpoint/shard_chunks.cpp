#include "shard_chunks.h"

#include <algorithm>

#include "checkpoint_files.h"

namespace dlrm {

namespace {

using Work = std::function<void(size_t, Range)>;

void each_chunk_alone(const TensorShard& shard, size_t number, const Work& work) {
  const int64_t row_bytes = shard.columns.size() * static_cast<int64_t>(sizeof(float));
  if (row_bytes == 0) return;
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(kCheckpointChunk) / row_bytes);
  for (int64_t row = 0; row < shard.rows.size(); row += most) {
    work(number, {row, std::min(row + most, shard.rows.size())});
  }
}

}  // namespace

void each_chunk(const std::vector<const TensorShard*>& shards, const Work& work) {
  for (size_t i = 0; i < shards.size(); ++i) {
    SharedRows* const shared = shards[i]->shared.rows;
    if (!shared) {
      each_chunk_alone(*shards[i], i, work);
      continue;
    }
    const auto shares = [&](const TensorShard* shard) { return shard->shared.rows == shared; };
    const auto here = shards.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::any_of(shards.begin(), here, shares)) continue;  // visited with an earlier one
    shared->begin();
    for (Range rows = shared->next(); rows.size() > 0; rows = shared->next()) {
      for (size_t j = i; j < shards.size(); ++j) {
        if (shares(shards[j])) work(j, rows);
      }
    }
  }
}

void read_chunk(const TensorShard& shard, Range rows, float* out) {
  if (shard.shared.rows) return shard.shared.rows->read(shard.shared.part, out);
  shard.read(rows.begin, rows.size(), out);
}

void write_chunk(const TensorShard& shard, Range rows, const float* in) {
  if (shard.shared.rows) return shard.shared.rows->write(shard.shared.part, in);
  shard.write(rows.begin, rows.size(), in);
}

}  // namespace dlrm
