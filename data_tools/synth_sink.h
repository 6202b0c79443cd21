#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"

#include "synth_criteo.h"

namespace dlrm {

/// Samples [from, to) of a generated block, and their encoded form.
struct SynthBlock {
  Batch batch;
  CriteoNumbers criteo;
  std::vector<float> unit;  ///< dense features scaled to [0, 1], for the teacher
  int64_t from = 0;
  int64_t to = 0;
  std::string text;                          ///< TSV: the lines
  std::vector<float> labels;                 ///< HDF5: [to - from, labels]
  std::vector<std::vector<int32_t>> narrow;  ///< HDF5: 32-bit ids of each feature
};

/// The output of samples. A file gets its name only in finish().
class SynthSink {
 public:
  virtual ~SynthSink() = default;
  /// Does the work that does not depend on other blocks. Many threads call it.
  virtual void encode(SynthBlock& block) const = 0;
  /// Writes an encoded block. Blocks are passed in order, one at a time.
  virtual void write(const SynthBlock& block) = 0;
  virtual void finish() = 0;
  int64_t bytes() const { return bytes_; }

 protected:
  int64_t bytes_ = 0;
};

std::unique_ptr<SynthSink> make_tsv_sink(const std::string& path);
/// Writes `samples` samples with the config's features and dense values U[0, 100).
std::unique_ptr<SynthSink> make_dataset_sink(const std::string& path, const ModelConfig& model,
                                             int64_t samples);

}  // namespace dlrm
