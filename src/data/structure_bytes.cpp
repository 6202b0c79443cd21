#include "structure_bytes.h"

namespace dlrm {
namespace {

/// Larger than any file.
constexpr int64_t kMost = int64_t{1} << 48;

bool is_size(int64_t value) { return value >= 0 && value <= kMost; }

bool is_possible(const StoredFeature& feature, int64_t samples) {
  if (feature.rows < 0) return false;
  if (feature.type != IdType::kInt32 && feature.type != IdType::kInt64) return false;
  if (!is_size(feature.hotness) || !is_size(feature.count)) return false;
  if (feature.hotness == 0) return true;
  return feature.count % feature.hotness == 0 && feature.count / feature.hotness == samples;
}

}  // namespace

void check_structure(const DatasetStructure& structure) {
  bool possible =
      is_size(structure.samples) && is_size(structure.checksum_samples) &&
      is_size(structure.dense_width) && is_size(structure.preprocessing_bytes) &&
      is_size(structure.num_labels) && structure.num_labels > 0 &&
      (structure.label_type == LabelType::kUint8 || structure.label_type == LabelType::kFloat32);
  for (const StoredFeature& feature : structure.features) {
    possible = possible && is_possible(feature, structure.samples);
  }
  if (!possible) throw run_error("a child process sent impossible numbers");
}

}  // namespace dlrm
