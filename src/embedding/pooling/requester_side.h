#pragma once
#include <cstdint>
#include <vector>

#include "embedding/routing/bag_scan.h"
#include "embedding/routing/id_staging.h"
#include "embedding/tables/layout.h"

namespace dlrm {

/// The local samples whose bags are not empty on one slice: `count` entries of
/// RequesterSide::returned_samples, from entry `first` on. The slice's owner returns vectors for
/// these samples only. The last entries may be -1: their vectors belong to no sample.
struct ReturnedBags {
  int64_t first = 0;
  int64_t count = 0;
};

/// A batch's data on the rank of its samples: the bags of features whose tables are whole on that
/// rank, and the data needed to place returned vectors. Pointers are to device memory.
class RequesterSide {
 public:
  explicit RequesterSide(Device& device) : staging_(device, "ids of local samples") {}

  /// The features whose bags are looked up on this rank: those of replicated tables, or all.
  enum class Keep : uint8_t { kReplicated, kAll };
  /// Prepares the batch. For the features in `keep`, stages offsets, and points `destinations` to
  /// staging memory for ids. Computes scales from bag lengths. Reserves memory for `most_returned`
  /// bags of place_returned().
  void begin(const EmbeddingLayout& layout, const LocalBags& bags,
             const std::vector<BagScan>& scans, Keep keep, size_t most_returned, int threads,
             std::vector<IdDestination>& destinations);
  /// Makes a list of `capacities[g]` entries for the `counts[g]` returned bags of each group.
  void place_returned(View<const int64_t> counts, View<const int64_t> capacities);
  /// The samples of the returned bags of group `number`, which the caller writes in ascending
  /// order.
  int32_t* samples_returned(size_t number) {
    return host_returned_samples_ + returned[number].first;
  }
  /// Sets the scales of group `number` of feature `feature` from its samples.
  void scale_returned(size_t number, size_t feature);

  IdStaging& staging() { return staging_; }
  const IdStaging& staging() const { return staging_; }

  std::vector<IdGroup> kept;           ///< by feature; empty for features that are not kept
  std::vector<const float*> scales;    ///< by feature: [b] 1/length of each bag; null for sums
  std::vector<ReturnedBags> returned;  ///< by number of the group; empty if all bags are returned
  const int32_t* returned_samples = nullptr;  ///< ascending in each group, from 0, then -1
  const float* returned_scales = nullptr;  ///< 1/length of each whole bag, if its feature is a mean
  /// By feature: every local bag has one id, so only one slice returns a vector for a sample.
  std::vector<char> alone;

 private:
  /// A kept feature and its staged arrays. Offsets are null if the device computes them, because
  /// all bags have the same length.
  struct Kept {
    size_t feature;
    void* offsets;
    float* weights;  // of its ids, or null
  };
  template <class T>
  void place(int64_t b, const std::vector<BagScan>& scans, size_t ids, size_t offsets,
             std::vector<IdDestination>& destinations);
  void place_weights(const EmbeddingLayout& layout, const std::vector<BagScan>& scans, float* next);
  void place_scales(const EmbeddingLayout& layout, int64_t b, float* next);
  template <class T>
  void write(const LocalBags& bags, const std::vector<BagScan>& scans, int threads) const;

  IdStaging staging_;
  std::vector<Kept> features_;
  std::vector<float*> host_scales_;  ///< like scales, on the host
  int32_t* host_returned_samples_ = nullptr;
  float* host_returned_scales_ = nullptr;
};

}  // namespace dlrm
