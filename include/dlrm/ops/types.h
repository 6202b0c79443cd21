#pragma once
#include <cstdint>

#include "dlrm/core/dtype.h"
#include "dlrm/core/optimizer.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// Activation of a linear layer: relu max(z, 0); gelu z/2·(1 + tanh(√(2/π)·(z + 0.044715 z³)));
/// silu z·σ(z); sigmoid σ(z) = 1/(1 + e^-z); tanh.
enum class Act : uint8_t { kNone, kRelu, kGelu, kSilu, kSigmoid, kTanh };

/// Whether act'(z) cannot be had from act(z), so that the forward pass must keep z.
constexpr bool needs_input(Act act) { return act == Act::kGelu || act == Act::kSilu; }

/// Of a relu layer's output, a bit for each element, set where it is above 0.
struct ReluMask {
  void* bits = nullptr;  ///< [b, stride] bits: bit j of row i is bit j % 8 of byte (i·stride + j)/8
  int64_t stride = 0;    ///< bits from row to row, a multiple of 128
  bool written = false;  ///< by the last forward
};

/// One linear layer's forward, with what executions that fuse layers can use.
struct LayerForward {
  Matrix x, w;
  View<const float> bias;
  View<const BFloat16> rounded_bias;  ///< bias rounded, or empty
  Act act = Act::kNone;
  Matrix y, z;
  ReluMask* mask = nullptr;  ///< asked for, where act is relu
};

/// The layer whose output y was x of the one above, whose backward can end in this one's.
struct LayerBelow {
  Act act = Act::kNone;
  Matrix y, z;
  const ReluMask* mask = nullptr;
  View<float> dbias;       ///< may be written,
  bool has_dbias = false;  ///< and was
};

/// One linear layer's backward: what its forward read and wrote, and where gradients go.
struct LinearGradients {
  Act act = Act::kNone;
  Matrix y;              ///< [b, out] what forward gave; not read where act is kNone
  Matrix z;              ///< [b, out] what it kept, where needs_input(act)
  Matrix dy;             ///< [b, out] its gradient; undefined afterwards
  Matrix x;              ///< [b, in]
  Matrix w;              ///< [out, in]
  Matrix dx;             ///< [b, in], or left out where dx.data is null
  MatrixView<float> dw;  ///< [out, in]
  View<float> dbias;     ///< [out], or empty

  // Only where Ops::fuses_layers():
  bool add = false;             ///< dx += what else it would be
  LayerBelow* below = nullptr;  ///< dx ← dx ⊙ act'(z) of that layer; what may be is done for it
};

/// A dense parameter with what its optimizer keeps: one element each.
struct DenseTensor {
  View<float> values;
  View<float> state1, state2;  ///< empty where the rule has none
  View<BFloat16> copy;         ///< the rounded values that products read, or empty
};

/// The rows of one shard as operations see them: weights and optimizer state in separate arrays.
struct RowTable {
  void* weights = nullptr;  ///< [rows, width], `stride` elements from row to row
  DType type = DType::kFloat32;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t stride = 0;
  float* state1 = nullptr;   ///< adagrad [rows, width] with state_stride; rowwise [rows]; adam m
  float* state2 = nullptr;   ///< adam v
  int64_t state_stride = 0;  ///< elements from row to row (1 for rowwise)
  /// bf16: updates compute in fp32 and store round_stochastically(w, rounding_bits(rounding_key,
  /// first_row + r, first_column + c, OptimizerStep::step)); fill_uniform and copies round to
  /// nearest. Element (first_row, first_column) of the whole table is this shard's (0, 0).
  uint64_t rounding_key = 0;
  int64_t first_row = 0;
  int64_t first_column = 0;
  bool on_host = false;  ///< a GPU reaches weights and state over its link to the host
};

/// One feature's bags on one shard, to be looked up.
struct BagGroup {
  RowTable table;
  const int64_t* ids = nullptr;      ///< row numbers local to the shard
  const int64_t* offsets = nullptr;  ///< [bags + 1], into ids
  int64_t bags = 0;
  const float* scale = nullptr;  ///< [bags] or absent
  MatrixView<float> pooled;      ///< [bags, width]
  int64_t capacity = 0;          ///< as IdGroup's, or 0 where it is not known
};

/// The ids of one feature on one shard.
struct IdGroup {
  const int64_t* ids = nullptr;
  const int64_t* offsets = nullptr;  ///< [bags + 1], into ids
  int64_t bags = 0;
  int64_t capacity = 0;  ///< ids at most: what the host knows of offsets[bags] - offsets[0]
};

/// The ids of one feature, to be looked through before anything uses them.
struct IdCheck {
  void* ids = nullptr;               ///< int64, or int32 with `narrow`
  const int64_t* offsets = nullptr;  ///< [bags + 1], into ids; absent: bags lie one after another
  int64_t bags = 0;
  int64_t capacity = 0;              ///< as IdGroup's; without offsets exact
  int64_t rows = 0;                  ///< good ids lie in [0, rows)
  int64_t feature = 0;               ///< what a report calls it
  int64_t first_sample = 0;          ///< bag b is of sample first_sample + b, or + samples[b]
  int64_t first_row = 0;             ///< a report adds it to the id: ids count from that row
  const int32_t* samples = nullptr;  ///< [bags] or absent
  const int32_t* lengths = nullptr;  ///< without offsets: [bags] ids of each bag, or absent
  int32_t length = 0;                ///< without either: ids of each bag
  bool narrow = false;
};

/// Integers that came to the device as int32.
struct PackedList {
  const int32_t* from = nullptr;  ///< [count]; absent: the multiples of `step` from 0 on
  int64_t* to = nullptr;          ///< [count]
  int64_t count = 0;
  int64_t step = 0;
};

/// One rank's bags of a feature, their ids one after another.
struct IdPart {
  const void* ids = nullptr;         ///< int64, or int32 with `narrow`
  const int32_t* lengths = nullptr;  ///< [bags] ids of each bag; absent: `length` of them
  int64_t bags = 0;
  int32_t length = 0;
  bool narrow = false;
};

/// What a shard of rows [first_row, first_row + rows) keeps of a feature's ids.
struct IdFilter {
  View<const IdPart> parts;  ///< rank by rank
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t* ids = nullptr;      ///< room for all ids of the parts
  int64_t* offsets = nullptr;  ///< [bags of all parts + 1]
};

/// The bag that an id stood in.
struct Occurrence {
  int32_t group = 0;
  int32_t bag = 0;
};

/// Occurrences sorted by row.
struct SegmentedRows {
  View<int64_t> rows;            ///< [capacity] unique rows, ascending
  View<int64_t> starts;          ///< [capacity + 1]
  View<Occurrence> occurrences;  ///< [capacity]
  View<int64_t> count;           ///< [1] number of unique rows
};

/// Gradients of one feature's pooled bags.
struct BagGradient {
  MatrixView<const float> pooled;  ///< [bags, width]
  const float* scale = nullptr;    ///< [bags] or absent
};

/// One table shard's sparse update: what group_rows and embedding_bag_update take.
struct ShardUpdate {
  RowTable table;
  View<const IdGroup> groups;
  View<const BagGradient> gradients;  ///< one for each group
  SegmentedRows runs;
};

/// A rectangle to copy. Row r of it is row r of each side, or the row that the side's list names.
struct BlockCopy {
  const void* src = nullptr;
  void* dst = nullptr;
  DType src_type = DType::kFloat32;
  DType dst_type = DType::kFloat32;
  int64_t src_stride = 0;  ///< elements from row to row
  int64_t dst_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  const float* scale = nullptr;       ///< [rows] or absent
  const int32_t* src_rows = nullptr;  ///< [rows] rows of src, or absent
  const int32_t* dst_rows = nullptr;  ///< [rows] rows of dst, ascending and each once, or absent
  bool accumulate = false;
};

}  // namespace dlrm
