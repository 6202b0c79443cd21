#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/core/partition.h"

namespace dlrm {

/// The local samples of one global batch, on the host. The hdf5 reader has checked ids
/// against the dataset's rows. The router checks all ids against their table's rows.
struct Batch {
  int64_t t = 0;  ///< global batch number, from 0, over all epochs
  int64_t epoch = 0;
  int64_t global_size = 0;        ///< samples of the whole global batch
  Range local;                    ///< this rank's part of [0, global_size)
  std::vector<float> dense;       ///< [b, dense_features]
  std::vector<float> labels;      ///< [labels, b]; of several NaN: the sample lacks this one
  std::vector<float> weights;     ///< [b], or empty: every sample counts once
  std::vector<int64_t> ids;       ///< feature-major, then sample, then position in the bag
  std::vector<int64_t> offsets;   ///< [features·b + 1], into ids
  std::vector<float> id_weights;  ///< of `ids`, 1 where a feature has none; empty if none has any
  int64_t dropped = 0;            ///< invalid ids left out
  int64_t content = 0;            ///< batches of one number, unless it is 0, have the same samples
  std::shared_ptr<void> packed;   ///< of a PackingSource; sources keep it

  int64_t size() const { return local.size(); }
};

}  // namespace dlrm
