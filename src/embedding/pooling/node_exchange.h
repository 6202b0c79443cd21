#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

#include "embedding/tables/layout.h"

namespace dlrm {

/// Adds the partial vectors of row shards within a node, and hands the gradients of the sums out
/// there. A rank has the partial vectors of its shards [B, partial_width] in fp32. It sends each
/// other rank of a sum the columns that this one adds, and adds its own columns of all of them, in
/// the order of their rows. Gradients return the same way. Needs as many calls on every rank.
class NodeExchange {
 public:
  NodeExchange(Context& context, const EmbeddingLayout& layout);

  /// Reserves memory for a batch of `samples` samples of all ranks.
  void begin(int64_t samples);
  /// The partial vectors, or their gradients, of entry `sum` of OwnerLayout::sums for `bags` bags
  /// from sample `first` of the global batch on.
  Matrix partial(int sum, int64_t first, int64_t bags) const;

  /// The sums of entry `sum`, in fp32, in the order of the global batch. Not if its part is empty.
  MatrixView<float> summed(int sum) const;

  /// Starts to send partial vectors.
  void start_sums(Ops& ops, Stream& stream);
  /// Makes `stream` wait for them, and computes summed().
  void finish_sums(Ops& ops, Stream& stream);
  /// Starts to send the gradients of sums, which are in summed().
  void start_gradients(Ops& ops, Stream& stream);
  /// Makes `stream` wait for them, and writes those of partial vectors.
  void finish_gradients(Ops& ops, Stream& stream);

  /// Returns true if a started call is done.
  bool poll() { return pending_.poll(); }
  int64_t pooled_bytes() const { return pooled_bytes_; }
  int64_t gradient_bytes() const { return gradient_bytes_; }

 private:
  /// The columns of one entry that another rank adds (`theirs`), or that I add (`mine`), in the
  /// messages with that rank.
  struct Link {
    int sum = 0;
    int rank = 0;
    size_t place = 0;  ///< of the rank among those of the sum
    Range part;        ///< counted from the shards' first column
    int64_t at = 0;    ///< floats per sample before it in the buffer
  };
  /// Links to other ranks and a buffer of [B, columns] for each of them, one after the other.
  struct Side {
    explicit Side(Device& device) : values(device, 0, "partial vectors on their way") {}
    std::vector<Link> links;               ///< by rank
    std::vector<int64_t> widths, offsets;  ///< [ranks] floats per sample
    int64_t width = 0;
    Array<float> values;
  };

  void place(Side& side) const;
  MatrixView<float> columns(const Side& side, const Link& link) const;
  MatrixView<float> partial_columns(const SummedBlock& sum, Range part) const;
  void copy(MatrixView<float> from, MatrixView<float> to, bool accumulate = false);
  void start(const Side& from, Side& to, int64_t& bytes, Stream& stream);
  const SummedBlock& block(int sum) const { return mine_.sums[static_cast<size_t>(sum)]; }

  const OwnerLayout& mine_;
  std::unique_ptr<Communicator> comm_;
  int64_t samples_ = 0;
  Array<float> partial_, summed_;
  std::vector<int64_t> summed_at_;  ///< of each entry, floats per sample before it
  int64_t summed_width_ = 0;
  Side own_, others_;  ///< the columns that I add, and those that others add
  ExchangeLayout layout_;
  std::vector<BlockCopy> copies_;
  Pending pending_;
  int64_t pooled_bytes_ = 0;
  int64_t gradient_bytes_ = 0;
};

}  // namespace dlrm
