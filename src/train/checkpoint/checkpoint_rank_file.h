#pragma once
#include <string>
#include <vector>

#include "dlrm/train/checkpoint.h"

#include "checkpoint_index.h"

namespace dlrm {

/// The file that one rank wrote.
struct RankFile {
  StoredFile file;
  std::vector<int64_t> offsets;  ///< bytes, of each piece
  std::vector<int64_t> crcs;     ///< of each piece
  std::string not_finite;  ///< the first value that is not finite: "/tables/C1/adagrad, row 17"
};

/// Writes this rank's pieces to `path`, each as a contiguous dataset, and syncs it. No piece may be
/// empty. CRCs are computed, and values checked, while the pieces are written, without reading them
/// back.
RankFile write_rank_file(const std::string& path, const std::vector<const TensorShard*>& pieces);

}  // namespace dlrm
