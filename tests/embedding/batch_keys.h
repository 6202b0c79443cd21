#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "dlrm/embedding/sharded_embeddings.h"

namespace dlrm::testing {

/// Waits for the oldest batch. Returns true if its key differs from `last`, which then is its key.
inline bool has_new_key(ShardedEmbeddings& embeddings, std::vector<uint64_t>& last) {
  embeddings.await_ids();
  std::vector<uint64_t> key;
  embeddings.append_key(key);
  const bool differs = key != last;
  last = std::move(key);
  return differs;
}

}  // namespace dlrm::testing
