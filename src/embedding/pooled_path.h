#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

#include "layout.h"
#include "routed_batch.h"

namespace dlrm {

/// How the vectors that owners pool get to the samples' ranks, and their gradients back. Blocks are
/// those of this rank's OwnerLayout; each is in as many pieces as the batch's groups.
class PooledPath {
 public:
  /// Where a piece's bags are pooled and how their gradient is read.
  struct Place {
    MatrixView<float> pooled;      ///< [bags of the piece, block width]
    const float* scale = nullptr;  ///< [bags] or absent
  };

  virtual ~PooledPath() = default;
  /// Lays out a batch: before its lookup.
  virtual void begin(const RoutedBatch& batch) = 0;
  /// Where lookup writes a piece of block `block`. `e` [b, W].
  virtual Place pooled(const RoutedBatch& batch, size_t block, size_t piece,
                       MatrixView<float> e) = 0;
  /// The vectors are there once `stream` is; `ops` are of that stream.
  virtual void start_return(const RoutedBatch& batch, Ops& ops, Stream& stream) = 0;
  /// Writes every sharded feature's columns of `e`. Partial sums of row shards are added in the
  /// order of their rows.
  virtual void finish_return(const RoutedBatch& batch, MatrixView<float> e) = 0;
  virtual void start_backward(const RoutedBatch& batch, MatrixView<float> de) = 0;
  virtual void finish_backward(const RoutedBatch& batch) = 0;
  /// Where the gradient of a piece is, after finish_backward. `de` [b, W].
  virtual Place gradient(const RoutedBatch& batch, size_t block, size_t piece,
                         MatrixView<float> de) = 0;
  virtual void poll() = 0;
  virtual int64_t pooled_bytes() const = 0;    ///< sent to other ranks so far
  virtual int64_t gradient_bytes() const = 0;  ///< likewise
};

/// Whether DirectPath serves a plan: one rank, and no table's rows cut.
bool direct_path_serves(const EmbeddingLayout& layout);

/// One rank owns all: bags are pooled in E itself and gradients read from dE, nothing is copied.
std::unique_ptr<PooledPath> make_direct_path(const EmbeddingLayout& layout);

/// All-to-all. From an owner to a rank of b samples go [b, width of its whole blocks],
/// sample-major, then for each other block its non-empty bags [n, width]; values travel as `wire`
/// says, gradients the same way back. Mean features travel as sums and are divided by the
/// requester, who knows the bag's whole length.
std::unique_ptr<PooledPath> make_exchanged_path(Context& context, Ops& ops,
                                                const EmbeddingLayout& layout, WireConfig wire);

}  // namespace dlrm
