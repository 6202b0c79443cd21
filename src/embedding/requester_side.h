#pragma once
#include <cstdint>
#include <vector>

#include "bag_scan.h"
#include "id_staging.h"
#include "layout.h"

namespace dlrm {

/// The local samples whose bags are not empty on one slice. Its owner returns only their vectors.
struct ReturnedBags {
  int64_t count = 0;
  const int32_t* samples = nullptr;  ///< [count] ascending, from 0 for the first local sample
  const float* scale = nullptr;      ///< [count] 1/length of each whole bag; null for sums
  /// Every local bag has exactly one id, so no other slice returns vectors for these samples.
  bool alone = false;
};

/// A batch's data on the rank of its samples. It has the bags of tables that are stored whole on
/// that rank, and the data that the use of returned vectors needs. Pointers are the device's.
class RequesterSide {
 public:
  explicit RequesterSide(Device& device) : staging_(device, "ids of local samples") {}

  /// Which features' bags stay on this rank.
  enum class Keep : uint8_t { kReplicated, kAll };
  /// Copies the offsets of the features to keep and computes scales from bag lengths. Sets the
  /// destinations of the features' ids. Reserves memory for `returned_groups` calls of
  /// add_returned().
  void begin(const EmbeddingLayout& layout, const LocalBags& bags,
             const std::vector<BagScan>& scans, Keep keep, size_t returned_groups, int threads,
             std::vector<IdDestination>& destinations);
  /// Sets the returned bags of group `number` of feature `feature`: those of samples whose lengths
  /// [b] are not 0. `i` numbers the calls.
  void add_returned(size_t i, size_t number, size_t feature, View<const int32_t> lengths,
                    bool alone);

  IdStaging& staging() { return staging_; }
  const IdStaging& staging() const { return staging_; }

  std::vector<IdGroup> kept;           ///< by feature; empty for those that are not kept
  std::vector<const float*> scales;    ///< by feature: [b] 1/length of each bag; null for sums
  std::vector<ReturnedBags> returned;  ///< by number of the group; empty if all are returned

 private:
  /// A feature whose bags are kept, and its staged offsets. Offsets are null if they are not
  /// staged, because they are multiples of the bag length.
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
  std::vector<const float*> host_scales_;   ///< like scales, on the host
  std::vector<int32_t*> returned_samples_;  ///< by call of add_returned(), on the host
  std::vector<float*> returned_scales_;     ///< by call of add_returned(), on the host
};

}  // namespace dlrm
