#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm {

struct ShuffleOptions {
  std::vector<std::string> inputs;  ///< files, or folders of files
  std::string output;
  double memory = 0x1p32;  ///< bytes
  uint64_t seed = 1;
  int threads = 0;                        ///< 0: one per CPU
  int64_t save_every = int64_t{1} << 30;  ///< bytes of samples after which the state is saved
};

struct ShuffleReport {
  int64_t samples = 0;
  int64_t bytes = 0;  ///< of all samples
  int64_t buckets = 0;
  int64_t resumed_at = 0;  ///< samples that an earlier process had distributed
  uint64_t sum_high = 0, sum_low = 0;
};

/// Writes all samples of the inputs in the order of random 64-bit numbers, which depend only on the
/// seed and a sample's position in the inputs. Equal numbers keep the order of the inputs. The
/// first pass distributes the samples to buckets by ranges of these numbers; the second sorts
/// bucket after bucket. What is needed to continue after an interruption is kept in the folder
/// `<output>.shuffle`. The output gets its name when it is whole, and when the sum of the hashes of
/// its samples, taken from the columns in memory that are written, is that of the inputs'. It is
/// not read again: what its disk damages, its own checksums detect when it is used. Another order
/// of the same samples is not detected. Errors: usage_error for what is wrong with options or
/// inputs; run_error for a failed write, or if samples have changed.
ShuffleReport shuffle_dataset(const ShuffleOptions& options);

}  // namespace dlrm
