#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/wire/message_bytes.h"

#include "bag_scan.h"
#include "embedding/tables/layout.h"
#include "embedding/tables/table_cuts.h"

namespace dlrm {

/// The ids of a rank's bags of all sharded features in one block, which devices exchange:
///
///   lengths  int32 per sample, for each feature whose bags differ in length
///   ids      by feature, then sample; int32 if every sharded table has at most 2^31 rows,
///            otherwise int64. A feature whose bags differ has room for `capacity` ids, of which
///            the last are 0.
///
/// The hosts tell each other the sizes in words: {length of every bag or -1, ids, capacity} of each
/// sharded feature, then the ids in each piece of the rows of each feature whose rows are cut.
class IdBlocks {
 public:
  IdBlocks(const EmbeddingLayout& layout, int64_t id_bytes);

  /// The sharded features, in the order of a block.
  const std::vector<size_t>& sent() const { return sent_; }
  size_t place_of(size_t feature) const { return static_cast<size_t>(place_of_[feature]); }
  /// Words of a rank.
  int64_t words() const { return words_; }

  struct Sizes {
    int64_t length = 0;  ///< of every bag, or -1 if they differ
    int64_t ids = 0;
    int64_t capacity = 0;
  };
  /// Sizes of the feature at `place` of a block.
  Sizes sizes(View<const int64_t> words, size_t place) const {
    const int64_t* const of = words.data() + kIdBlockSizes * static_cast<int64_t>(place);
    return {of[0], of[1], of[2]};
  }
  /// True if the bags of `feature` differ in length.
  bool varies(View<const int64_t> words, size_t feature) const {
    return sizes(words, place_of(feature)).length < 0;
  }
  /// True if the blocks of these words have the same layout.
  bool alike(View<const int64_t> a, View<const int64_t> b) const;
  /// Ids of `feature` in these rows of a slice.
  int64_t ids_in(View<const int64_t> words, size_t feature, Range rows) const;

  /// Bytes from the start of a block to a feature's arrays.
  struct Place {
    int64_t lengths = 0;  ///< if bags differ
    int64_t ids = 0;
  };
  /// Sets the places of sent(). Returns the bytes of the block.
  int64_t place(View<const int64_t> words, int64_t samples, std::vector<Place>& places) const;

  /// Writes the sizes of local bags to `words`.
  void describe(const std::vector<BagScan>& scans, View<int64_t> words) const;
  /// Writes the ids in each piece to `words`. Ids have been checked.
  void count(const LocalBags& bags, const std::vector<BagScan>& scans, int threads,
             View<int64_t> words) const;
  /// Writes lengths, and zeros behind ids, to a block.
  void write_lengths(const LocalBags& bags, const std::vector<BagScan>& scans,
                     const std::vector<Place>& places, int threads, char* block) const;

 private:
  const TableCuts& cuts_of(size_t feature) const {
    return tables_[static_cast<size_t>(layout_.features[feature].table)];
  }

  const EmbeddingLayout& layout_;
  const int64_t id_bytes_;
  const std::vector<TableCuts> tables_;
  std::vector<size_t> sent_;
  std::vector<int64_t> place_of_;     ///< by feature, -1 for replicated ones
  std::vector<int64_t> first_piece_;  ///< by place: the word of its first piece, -1: rows uncut
  int64_t words_ = 0;
};

}  // namespace dlrm
