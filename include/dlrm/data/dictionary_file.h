#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm {

/// A feature's values in the order of their ids: value i has id i + 1 (0 is out-of-vocabulary).
struct FeatureVocabulary {
  std::string feature;
  std::vector<uint32_t> values;
  int64_t missing_id = 0;  ///< id of the missing category, for which `values` holds 0; 0: none
};

/// Writes a dictionary file: HDF5 with root attributes format="dlrm-dictionary", version=1,
/// first_id=1, and for each feature a dataset /<feature>/values uint32 [n] with an attribute
/// missing_id int64. The file appears whole and synced, or not at all. Errors: usage_error if the
/// path cannot be created, run_error if a write fails.
void write_dictionary_file(const std::string& path, const std::vector<FeatureVocabulary>& features);

/// Reads the vocabularies of `features`, in that order. Anything wrong with the file is a
/// usage_error naming path and record. It is a run_error if the system cannot read it.
std::vector<FeatureVocabulary> read_dictionary_file(const std::string& path,
                                                    const std::vector<std::string>& features);

}  // namespace dlrm
