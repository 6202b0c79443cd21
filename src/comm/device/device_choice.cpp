#include "device_choice.h"

#include <fmt/core.h>

namespace dlrm::comm {

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string nccl_obstacle(const std::vector<NcclCandidate>& ranks) {
  for (size_t q = 0; q < ranks.size(); ++q) {
    if (ranks[q].obstacle[0]) return fmt::format("rank {}: {}", q, ranks[q].obstacle);
  }
  for (size_t q = 0; q < ranks.size(); ++q) {
    // NCCL of different versions would hang at the start.
    if (ranks[q].version != ranks[0].version) {
      return fmt::format("rank 0 has NCCL {}, rank {} {}", nccl_version_text(ranks[0].version), q,
                         nccl_version_text(ranks[q].version));
    }
    for (size_t r = 0; r < q; ++r) {
      const bool same = std::string(ranks[q].gpu) == ranks[r].gpu;
      if (same && !(ranks[q].own_host_id && ranks[r].own_host_id)) {
        return fmt::format("ranks {} and {} share GPU {}", r, q, ranks[q].gpu);
      }
    }
  }
  return "";
}

}  // namespace dlrm::comm
