#pragma once
#include <cstdint>
#include <utility>

namespace dlrm {

/// A half-open range [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Part `part` of `parts` near-equal parts of [0, total): [⌊part·total/parts⌋,
/// ⌊(part+1)·total/parts⌋). Samples of a global batch over ranks, rows over row shards, columns
/// over column shards.
inline Range part_of(int64_t total, int64_t part, int64_t parts) {
  const auto cut = [&](int64_t p) {
    return static_cast<int64_t>(static_cast<__int128>(total) * p / parts);
  };
  return {cut(part), cut(part + 1)};
}

/// Elements of the largest of `parts` parts of [0, total), which is the last.
inline int64_t largest_part(int64_t total, int64_t parts) {
  return part_of(total, parts - 1, parts).size();
}

}  // namespace dlrm
