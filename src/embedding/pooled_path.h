#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

#include "layout.h"
#include "routed_batch.h"

namespace dlrm {

/// How the vectors that owners pool get to the samples' ranks, and their gradients back. Blocks are
/// those of this rank's OwnerLayout.
class PooledPath {
 public:
  /// Where a block's bags are pooled and how their gradient is read.
  struct Place {
    MatrixView<float> pooled;      ///< [B, block width]
    const float* scale = nullptr;  ///< [B] or absent
  };

  virtual ~PooledPath() = default;
  /// Where lookup writes block `block` of `batch`. `e` [b, W].
  virtual Place pooled(const RoutedBatch& batch, size_t block, MatrixView<float> e) = 0;
  virtual void start_return(const RoutedBatch& batch) = 0;
  /// Writes every sharded feature's columns of `e`. Partial sums of row shards are added in the
  /// order of their rows.
  virtual void finish_return(const RoutedBatch& batch, MatrixView<float> e) = 0;
  virtual void start_backward(const RoutedBatch& batch, MatrixView<float> de) = 0;
  virtual void finish_backward(const RoutedBatch& batch) = 0;
  /// The gradient of block `block`, after finish_backward. `de` [b, W].
  virtual Place gradient(const RoutedBatch& batch, size_t block, MatrixView<float> de) = 0;
  virtual void poll() = 0;
  virtual int64_t pooled_bytes() const = 0;    ///< sent to other ranks so far
  virtual int64_t gradient_bytes() const = 0;  ///< likewise
};

/// Whether DirectPath serves a plan: one rank, and no table's rows cut.
bool direct_path_serves(const EmbeddingLayout& layout);

/// One rank owns all: bags are pooled in E itself and gradients read from dE, nothing is copied.
std::unique_ptr<PooledPath> make_direct_path(const EmbeddingLayout& layout);

/// All-to-all of [B, width of the owner], sample-major, so that each rank's samples are one run of
/// memory; values travel as `wire` says. Mean features travel as sums and are divided by the
/// requester, who knows the bag's whole length.
std::unique_ptr<PooledPath> make_exchanged_path(Context& context, Ops& ops,
                                                const EmbeddingLayout& layout, WireConfig wire);

}  // namespace dlrm
