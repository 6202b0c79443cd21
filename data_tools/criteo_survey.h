#pragma once
#include <cstdint>
#include <vector>

#include "criteo_pass.h"
#include "dictionary.h"

namespace dlrm {

/// A first pass that counts rows and, on request, the occurrences of each value.
class CriteoSurvey : public CriteoPass {
 public:
  explicit CriteoSurvey(bool count_values);
  void encode(size_t feature, CriteoBlock& block) override;
  void write(const CriteoBlock&) override {}

  /// Adds the feature's values that occur `threshold` times or more to `dictionary`, by first
  /// appearance, and forgets the feature's counts.
  void add_frequent(size_t feature, int64_t threshold, Dictionary& dictionary);

 private:
  struct Counts {
    Dictionary values{0};
    std::vector<int64_t> of_id;
  };
  std::vector<Counts> counts_;  // one per feature; empty if values are not counted
};

}  // namespace dlrm
