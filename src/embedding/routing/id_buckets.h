#pragma once
#include <cstdint>
#include <vector>

#include "bag_message.h"
#include "bag_scan.h"
#include "embedding/pooling/requester_side.h"
#include "embedding/tables/layout.h"
#include "embedding/tables/table_cuts.h"

namespace dlrm {

/// Buckets the ids of a batch by the slices that hold their rows. Threads share all ids in chunks
/// of samples, so that one long feature does not delay the others. A slice gets its ids in the
/// order of samples and positions, whatever the number of threads. Groups are numbered over all
/// owners.
class IdBuckets {
 public:
  explicit IdBuckets(const EmbeddingLayout& layout);

  /// The most bags that owners may return for this batch if they return only non-empty ones.
  size_t most_returned(const LocalBags& bags, const std::vector<BagScan>& scans) const;
  /// The same for any batch of so many local samples.
  size_t most_returned(int64_t samples) const;

  /// Counts the ids of each group. They have been checked.
  void count(const LocalBags& bags, const std::vector<BagScan>& scans, int threads);
  /// [groups] of the counted batch
  View<const GroupHeader> headers() const { return headers_; }
  /// [groups] the non-empty bags of groups that return only those, otherwise 0
  View<const int64_t> returned() const { return returned_; }

  /// Writes the counted batch to the messages of `spans`, by group, and its returned bags to
  /// `requester`, which has room for returned().
  void fill(const LocalBags& bags, View<const GroupSpan> spans, int64_t id_bytes,
            RequesterSide& requester, int threads);

 private:
  /// A slice that may receive ids of a feature.
  struct Bucket {
    size_t group;
    size_t feature;
    int64_t first_row;
    bool all_rows;  ///< receives the bags unchanged
    bool returned;  ///< only non-empty bags are returned
    // Of the batch, if not all_rows:
    int64_t ids = 0;
    int64_t bags = 0;                  ///< that are not empty
    char* to_ids = nullptr;            ///< in the message
    float* to_weights = nullptr;       ///< likewise; null if ids have none
    int32_t* to_samples = nullptr;     ///< the sample of each id, in samples_
    int32_t* returned_bags = nullptr;  ///< the sample of each non-empty bag
  };
  /// A part of a feature's bags.
  struct Chunk {
    size_t feature;
    Range samples;
    size_t first_tally;  ///< one for each bucket of the feature
  };
  /// The ids of a chunk that fall into a bucket, and later the position of the first.
  struct Tally {
    int32_t ids = 0;
    int32_t bags = 0;
    int32_t last = -1;  ///< the last sample that has an id here
  };

  const TableCuts& cuts_of(size_t feature) const {
    return tables_[static_cast<size_t>(layout_.features[feature].table)];
  }
  Bucket* buckets_of(size_t feature) { return buckets_.data() + first_bucket_[feature]; }
  size_t number_of_buckets(size_t feature) const {
    return first_bucket_[feature + 1] - first_bucket_[feature];
  }

  View<Tally> tallies_of(const Chunk& chunk) {
    return {tallies_.data() + chunk.first_tally, number_of_buckets(chunk.feature)};
  }

  void list_buckets();
  void list_chunks(const LocalBags& bags, const std::vector<BagScan>& scans);
  void count_chunk(const Chunk& chunk, const LocalBags& bags);
  void count_bags(const Chunk& chunk, const int64_t* offsets);
  void place_chunks(const std::vector<BagScan>& scans);
  void aim(View<const GroupSpan> spans, RequesterSide& requester);
  void fill_weights(const Chunk& chunk, const LocalBags& bags, View<const GroupSpan> spans);
  template <class Id>
  void fill_chunk(const Chunk& chunk, const LocalBags& bags, View<const GroupSpan> spans);

  const EmbeddingLayout& layout_;
  const std::vector<TableCuts> tables_;
  std::vector<Bucket> buckets_;  ///< feature-major
  std::vector<size_t> first_bucket_;
  std::vector<int64_t> returning_;        ///< by feature: buckets that return only non-empty bags
  std::vector<int64_t> returning_a_row_;  ///< by feature: the most of them that hold the same row
  std::vector<GroupHeader> headers_;
  std::vector<int64_t> returned_;
  std::vector<Chunk> chunks_;
  std::vector<Tally> tallies_;
  std::vector<int32_t> pieces_;   ///< of TableCuts, by position of the id
  std::vector<int32_t> samples_;  ///< of ids, by bucket
};

}  // namespace dlrm
