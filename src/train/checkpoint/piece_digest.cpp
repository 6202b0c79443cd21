#include "piece_digest.h"

#include <algorithm>

#include "train/step/finite.h"

namespace dlrm {

void PieceDigest::add(View<const float> values) {
  constexpr size_t kBlock = 4096;  // 16 KiB: half of a first-level cache
  for (size_t at = 0; at < values.size(); at += kBlock) {
    const auto block = values.subspan(at, std::min(kBlock, values.size() - at));
    crc_.add(block.data(), block.size() * sizeof(float));
    if (!not_finite_) {
      if (const auto bad = find_non_finite(block))
        not_finite_ = count_ + static_cast<int64_t>(*bad);
    }
    count_ += static_cast<int64_t>(block.size());
  }
}

}  // namespace dlrm
