#pragma once
#include <vector>

#include "layout.h"

namespace dlrm {

/// How owners return the pooled vectors of their shards: in which exchanges, and in which type. The
/// same on every rank. On GPUs there may be two exchanges: the second part is looked up while the
/// first one travels. Each owner first returns the shards with the fewest ids per byte that they
/// send, as many as are looked up and travel while the owner with most work looks up all of its
/// shards. How much of that time is for lookups is what lets all vectors arrive first.
class ReturnedParts {
 public:
  /// `rounds`: vectors are sent in fp32 and then rounded to bf16, so their owners may round them.
  /// `most`: 1 or 2 exchanges.
  ReturnedParts(const EmbeddingLayout& layout, bool rounds, int most);

  int count() const { return count_; }
  /// The exchange of a shard of `owner`.
  int part_of(int owner, int shard) const { return count_ == 1 ? 0 : of(owner, shard).part; }
  /// True if its owner rounds a shard's vectors: they are no sums of several ranks, and are not
  /// divided.
  bool rounds(int owner, int shard) const { return of(owner, shard).rounds; }

  /// Columns that the lookup of a shard reads and writes, per sample.
  double work(int owner, int shard) const { return of(owner, shard).work(); }

 private:
  struct Returned {
    double lookups = 0;  ///< columns that are read
    double vectors = 0;  ///< columns that are written
    bool rounds = false;
    int part = 1;

    double work() const { return lookups + vectors; }
    double sent() const { return rounds ? vectors / 2 : vectors; }
  };
  /// In columns of fp32 that memory reads or writes meanwhile, per sample.
  struct Times {
    double lookup = 0, exchange = 0;
  };

  const Returned& of(int owner, int shard) const {
    return shards_[static_cast<size_t>(owner)][static_cast<size_t>(shard)];
  }
  static std::vector<Returned> shards_of(const EmbeddingLayout& layout, const OwnerLayout& owner,
                                         bool rounds);
  double divide(const Times& limits);

  std::vector<std::vector<Returned>> shards_;  ///< by owner
  std::vector<std::vector<size_t>> order_;     ///< by owner: numbers of shards
  int count_ = 1;
};

}  // namespace dlrm
