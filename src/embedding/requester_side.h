#pragma once
#include <cstdint>
#include <vector>

#include "bag_scan.h"
#include "id_staging.h"
#include "layout.h"

namespace dlrm {

/// The local samples whose bags are not empty on one slice. Its owner returns their vectors alone.
struct ReturnedBags {
  int64_t count = 0;
  const int32_t* samples = nullptr;  ///< [count] ascending, from 0 for the first local one
  const float* scale = nullptr;      ///< [count] 1/length of each whole bag; absent for sums
  /// Every local bag has exactly one id, so that no other slice returns anything for these samples.
  bool alone = false;
};

/// What a batch keeps on the rank of its samples: the bags whose tables lie there whole, and what
/// is needed to use the vectors that owners return. Pointers are the device's.
class RequesterSide {
 public:
  explicit RequesterSide(Device& device) : staging_(device, "ids of local samples") {}

  /// Which features' bags stay on this rank.
  enum class Keep : uint8_t { kReplicated, kAll };
  /// Takes lengths, and offsets of the features to keep, and names the destinations of their ids.
  /// Reserves memory for `returned_groups` of add_returned().
  void begin(const EmbeddingLayout& layout, const LocalBags& bags,
             const std::vector<BagScan>& scans, Keep keep, size_t returned_groups, int threads,
             std::vector<IdDestination>& destinations);
  /// Lists the returned bags of group `number`, which is of feature `feature`: the samples whose
  /// lengths [b] are not 0. `i` numbers the calls.
  void add_returned(size_t i, size_t number, size_t feature, View<const int32_t> lengths,
                    bool alone);

  IdStaging& staging() { return staging_; }
  const IdStaging& staging() const { return staging_; }

  std::vector<IdGroup> kept;           ///< by feature; empty for those that are not kept
  std::vector<const float*> scales;    ///< by feature: [b] 1/length of each bag; absent for sums
  std::vector<ReturnedBags> returned;  ///< by number of the group; empty if all are returned

 private:
  /// A feature whose bags are kept, and where its offsets are staged; absent if they are multiples
  /// of its length.
  struct Kept {
    size_t feature;
    void* offsets;
  };
  template <class T>
  void place(const LocalBags& bags, const std::vector<BagScan>& scans, size_t ids, size_t offsets,
             int threads, std::vector<IdDestination>& destinations);
  void set_scales(const EmbeddingLayout& layout, const LocalBags& bags, float* next);

  IdStaging staging_;
  std::vector<Kept> features_;
  std::vector<const float*> host_scales_;   ///< as scales, on the host
  std::vector<int32_t*> returned_samples_;  ///< by call of add_returned(), on the host
  std::vector<float*> returned_scales_;     ///< likewise
};

}  // namespace dlrm
