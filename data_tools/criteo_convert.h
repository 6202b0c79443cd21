#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/data/criteo_parse.h"

namespace dlrm {

/// Options of `dlrm-data criteo`. Empty or 0 stands for an option that was not given.
struct CriteoOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string test_output;
  double test_fraction = 0;
  std::string dictionary;
  bool frozen_dictionary = false;
  int64_t frequency_threshold = 0;
  int64_t max_rows = 0;
  bool skip_malformed = false;
  int threads = 0;  ///< 0: the number of usable CPUs
};

struct CriteoReport {
  int64_t rows = 0;  ///< of the output, or of both outputs together
  int64_t test_rows = 0;
  int64_t skipped = 0;
  int64_t text_bytes = 0;
  /// Ids of each feature are less than this.
  std::array<int64_t, kCriteoCategories> feature_rows{};
};

/// Turns Criteo logs into a dataset file: label uint8, 13 dense floats, features C1 ... C26 of one
/// int32 id each.
///
/// Ids count values by first appearance over the inputs in order: from 0, or from 1 if 0 means
/// out-of-vocabulary (a dictionary or a frequency threshold is given). A missing category is a
/// value like others. With test_output, the last round(rows · test_fraction) rows go there, with
/// the same ids. A frequency threshold and a test part need the count of rows first, so the inputs
/// are read twice. The results do not depend on `threads`.
///
/// Outputs and dictionary appear whole or not at all, the dictionary first. Errors: usage_error
/// for options that contradict each other and for bad input, run_error for failed writes.
CriteoReport convert_criteo(const CriteoOptions& options);

}  // namespace dlrm
