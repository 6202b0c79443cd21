#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlrm {

/// True if the owner of `columns` columns rounds vectors to bf16 that are sent in fp32 and rounded
/// to a bf16 E: those that are no sums of several ranks, and are not divided. An even number of
/// bf16 values ends where fp32 may begin.
constexpr bool owner_rounds(bool has_all_rows, bool divides, int64_t columns) {
  return has_all_rows && !divides && columns % 2 == 0;
}

/// What an owner looks up for a shard and returns of it, in columns per sample.
struct ReturnedShard {
  double lookups = 0;   ///< columns that are read
  double vectors = 0;   ///< columns that are written
  bool rounds = false;  ///< vectors are sent in bf16, not in fp32

  double work() const { return lookups + vectors; }
  double sent() const { return rounds ? vectors / 2 : vectors; }
};

/// How owners return the pooled vectors of their shards: in one exchange or in two. The same on
/// every rank. On GPUs there may be two: the second part is looked up while the first one travels.
/// Each owner first returns the shards with the fewest ids per byte that they send, as many as are
/// looked up and travel while the owner with most work looks up all of its shards. How much of that
/// time is for lookups is what lets all vectors arrive first.
class ReturnedParts {
 public:
  /// `shards`: by owner. `most`: 1 or 2 exchanges.
  ReturnedParts(std::vector<std::vector<ReturnedShard>> shards, int most);

  int count() const { return count_; }
  /// The exchange of a shard of `owner`.
  int part_of(int owner, int shard) const {
    return count_ == 1 ? 0 : part_[static_cast<size_t>(owner)][static_cast<size_t>(shard)];
  }
  const ReturnedShard& shard(int owner, int number) const {
    return shards_[static_cast<size_t>(owner)][static_cast<size_t>(number)];
  }

 private:
  /// In columns of fp32 that memory reads or writes meanwhile, per sample.
  struct Times {
    double lookup = 0, exchange = 0;
  };

  double divide(const Times& limits);

  std::vector<std::vector<ReturnedShard>> shards_;  ///< by owner
  std::vector<std::vector<int>> part_;              ///< by owner and shard
  std::vector<std::vector<size_t>> order_;          ///< by owner: numbers of shards
  int count_ = 1;
};

}  // namespace dlrm
