#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

#include "embedding/routing/routed_batch.h"
#include "embedding/tables/layout.h"

namespace dlrm {

/// Sends pooled vectors from their owners to the samples' ranks, and their gradients back. Blocks
/// are those of this rank's OwnerLayout. A block has the pieces of its group in the batch.
class BagPooling {
 public:
  /// The vectors of one piece, or their gradients.
  struct Piece {
    Matrix pooled;                 ///< [bags of the piece, block width]
    const float* scale = nullptr;  ///< [bags] or null
  };

  virtual ~BagPooling() = default;
  /// The type of E, which is fp32 unless this is called. No batch may be in flight.
  virtual void set_type(DType /*vectors*/) {}
  /// Reserves memory for a batch, before its lookup.
  virtual void begin(const RoutedBatch& batch) = 0;
  /// The memory that a lookup writes for piece `piece` of the owner, which belongs to the group of
  /// block `block`. `e` [b, W].
  virtual Piece pooled(const RoutedBatch& batch, size_t block, size_t piece, const Matrix& e) = 0;
  /// How the vectors of a shard are returned.
  struct Return {
    int part = 0;       ///< the exchange
    bool bf16 = false;  ///< they are rounded before it
    double work = 0;    ///< columns that the lookup reads and writes, per sample; 0: of whole rows
  };
  /// The exchanges in which vectors are returned, one after the other.
  virtual int parts() const { return 1; }
  virtual Return return_of(int /*shard*/) const { return {}; }
  /// Starts the exchange of a part once `stream` has computed its vectors. `ops` queue on that
  /// stream.
  virtual void start_return(const RoutedBatch& batch, int part, Ops& ops, Stream& stream) = 0;
  /// Waits, and writes every sharded feature's columns of `e`. Adds partial sums of row shards in
  /// fp32, in the order of their rows, and rounds their total to the type of `e`.
  virtual void finish_return(const RoutedBatch& batch, const Matrix& e) = 0;
  virtual void start_backward(const RoutedBatch& batch, const Matrix& de) = 0;
  virtual void finish_backward(const RoutedBatch& batch) = 0;
  /// A piece's gradients after finish_backward(). `de` [b, W].
  virtual Piece gradient(const RoutedBatch& batch, size_t block, size_t piece,
                         const Matrix& de) = 0;
  /// Advances exchanges. May queue operations on the main stream if the device is synchronous.
  virtual void poll() = 0;
  virtual int64_t pooled_bytes() const = 0;    ///< sent to other ranks so far
  virtual int64_t gradient_bytes() const = 0;  ///< sent to other ranks so far
};

/// For one rank that owns all rows. Bags are pooled in E itself, and gradients are read from dE.
std::unique_ptr<BagPooling> make_local_pooling(const EmbeddingLayout& layout);

/// For several ranks, or rows that are cut. An owner sends to a rank of b samples a matrix [b,
/// width of its whole blocks], sample-major. After it follow, for each other block, the vectors [n,
/// width] of its n non-empty bags. A whole block returns every bag. Gradients are sent back in the
/// same layout. Values are sent in the types of `wire`; if that is fp32 and E is bf16, vectors are
/// rounded before they are sent instead of afterwards, unless they are partial or are divided.
/// Features with mean pooling are sent as sums. The requester divides them, because it knows the
/// whole length of the bag. Partial vectors of a node sum (plan/node_sums.h) are added by its ranks
/// first, each of which returns a part of the columns of every bag.
std::unique_ptr<BagPooling> make_all_to_all_pooling(Context& context, Ops& ops,
                                                    const EmbeddingLayout& layout, WireConfig wire);

}  // namespace dlrm
