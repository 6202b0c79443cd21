#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/data/dataset_file.h"

namespace dlrm {

/// Where a sample of a dataset is stored.
struct SamplePlace {
  int64_t file = 0;
  int64_t sample = 0;
};

/// Verifies the checksums of a dataset's blocks, each once, before their first use. Thread-safe:
/// threads that need the same blocks share the work. Files without checksums are not verified.
class BlockVerifier {
 public:
  /// `features[f]` are the numbers of the features of file f that will be read.
  BlockVerifier(const Dataset& dataset, std::vector<std::vector<size_t>> features);
  /// Returns once the blocks of all places are verified. Throws what DatasetFile::verify throws.
  void verify(View<const SamplePlace> places) const;

 private:
  using State = std::atomic<uint8_t>;

  struct Blocks {
    const DatasetFile* file = nullptr;
    std::vector<size_t> features;
    int shift = 0;  // log2 of the samples of a block
    std::unique_ptr<State[]> states;
  };

  /// Verifies a block that no other thread verifies. False if one does.
  static bool try_verify(const Blocks& blocks, int64_t block);

  std::vector<Blocks> files_;
};

}  // namespace dlrm
