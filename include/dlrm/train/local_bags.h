#pragma once
#include "dlrm/data/batch.h"
#include "dlrm/embedding/sharded_embeddings.h"

namespace dlrm {

/// The bags of a batch, which must not change while they are used.
inline LocalBags bags_of(const Batch& batch) {
  return {batch.local,   batch.global_size, batch.ids,
          batch.offsets, batch.content,     batch.id_weights};
}

}  // namespace dlrm
