#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dlrm/ops/embedding.h"

#include "kernels/embedding_forward.h"
#include "kernels/embedding_update.h"
#include "kernels/group_rows.h"
#include "kernels/id_lists.h"
#include "kernels/sparse_update.h"
#include "kernels/table_update.h"

namespace dlrm::cuda {

/// The groups of a lookup that are not empty, and their blocks.
struct LookupLists {
  std::vector<kernels::LookupGroup> groups;
  std::vector<uint32_t> first_block;  ///< one more entry at the end
  std::vector<int64_t> ids_a_bag;

  /// Takes the groups whose vectors are of `pooled`, whose table is in the host's memory if
  /// `on_host`, otherwise on the device, and whose ids have weights if `weighted`, otherwise none.
  void set(View<const BagGroup> bags, bool on_host, bool weighted = false,
           DType pooled = DType::kFloat32);
};

/// The ids of shards whose rows are to be grouped.
struct GroupingLists {
  std::vector<kernels::IdList> lists;
  std::vector<const float*> weights;  ///< of the lists' ids
  std::vector<uint32_t> first_block;  ///< one more entry at the end
  std::vector<kernels::RunList> shards;
  int64_t capacity = 0;   ///< most ids in total
  int64_t bags_each = 0;  ///< bags of each list if they are equal, otherwise 0
  uint64_t rows = 0;      ///< of all shards
  bool weighted = false;  ///< any ids have weights

  void set(View<const UpdatedShard> updates);

 private:
  void add(const IdGroup& group, int32_t place, int32_t shard, uint64_t key_base);
};

/// Shards whose runs are to be summed. Gradients are stored shard after shard. After their upload
/// place_gradients sets the pointers to them.
struct UpdateLists {
  std::vector<kernels::UpdateShard> shards;
  std::vector<kernels::GradientList> gradients;
  std::vector<int64_t> first_gradient;
  std::vector<uint32_t> search_blocks;  ///< one more entry at the end
  std::vector<uint32_t> run_blocks;     ///< see UpdateList
  uint32_t most_run_blocks = 0;
  kernels::LongRunRoom room;
  bool bf16_gradients = false;

  void clear();
  /// `shard` has a width > 0. `runs` has at most runs.occurrences.size() occurrences.
  void add(kernels::UpdateShard shard, const SegmentedRows& runs,
           View<const BagGradient> of_groups);
  /// To be called after the last add().
  void finish();
  void place_gradients(const kernels::GradientList* on_device);

 private:
  std::vector<int64_t> capacities_;
};

/// The tables that have rows and columns, and their blocks.
struct TableLists {
  std::vector<kernels::DenseTable> tables;
  std::vector<uint32_t> first_block;  ///< one more entry at the end

  void set(View<const TableUpdate> updates);
};

/// Types of pooled vectors. Each has its own launch.
inline constexpr std::array kVectorTypes = {DType::kFloat32, DType::kBFloat16};

/// The groups of a lookup that one launch takes.
struct LookupKind {
  DType vectors;
  bool weighted;
};
inline constexpr std::array kLookupKinds = {
    LookupKind{DType::kFloat32, false}, LookupKind{DType::kBFloat16, false},
    LookupKind{DType::kFloat32, true}, LookupKind{DType::kBFloat16, true}};

/// Kept between calls, so that a steady state allocates nothing.
struct EmbeddingLists {
  std::array<LookupLists, kLookupKinds.size()> lookup, lookup_over_link;
  GroupingLists grouping;
  UpdateLists update, update_over_link;
  TableLists tables;
  std::vector<kernels::CheckList> checks;
  std::vector<kernels::UnpackList> unpacked;
  std::vector<kernels::FilterPart> filter_parts;
  std::vector<uint32_t> id_blocks;
};

}  // namespace dlrm::cuda
