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
};

/// Writes this rank's pieces (none of them empty) to `path`, each as a contiguous dataset, and
/// syncs it. The CRC is computed from the bytes as they are written, without reading them back.
RankFile write_rank_file(const std::string& path, const std::vector<const TensorShard*>& pieces);

}  // namespace dlrm
