#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"
#include "dlrm/data/criteo_parse.h"

// Samples in the format of Criteo's click logs, made from plain synthetic samples.
namespace dlrm {

/// The config of the plain samples: 13 dense features, tables C1 to C26 with the shape's
/// vocabularies, one id each.
RunConfig criteo_shape();

/// A block of Criteo samples: integers and categories, some of which are missing.
struct CriteoNumbers {
  std::vector<int32_t> numbers;  ///< [b, 13]; kMissing if missing
  std::vector<float> unit;       ///< [b, 13] log(x+1) as a share of its column's range
  std::vector<float> draws;      ///< scratch
};
constexpr int32_t kMissing = INT32_MIN;

/// Draws the integers from the batch's dense values, and sets the ids of missing categories to -1.
/// Sample i of the batch is number first + i of the stream.
void make_criteo(uint64_t seed, int64_t first, Batch& batch, CriteoNumbers& block);

/// Appends the lines of samples [from, to): label, integers, categories as 8 hexadecimal digits,
/// separated by tabs. Missing values are empty. Different ids of a column give different words.
void append_criteo_lines(const Batch& batch, const CriteoNumbers& block, int64_t from, int64_t to,
                         std::string& text);

}  // namespace dlrm
