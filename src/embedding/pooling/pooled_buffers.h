#pragma once
#include <vector>

#include "dlrm/ops/ops.h"
#include "dlrm/plan/traffic.h"

#include "embedding/routing/routed_batch.h"
#include "embedding/tables/layout.h"
#include "embedding/tables/returned_shards.h"
#include "pooled_layout.h"

namespace dlrm {

/// The memory of pooled vectors, and later of their gradients, on the owners of shards and on the
/// ranks of the samples. A rank's own vectors stay with those that it sends. Blocks are numbered as
/// in PooledLayout.
class PooledBuffers {
 public:
  /// `shared`: the device that exchanges read and write. `most_parts`: see ReturnedParts.
  PooledBuffers(Device& shared, const EmbeddingLayout& layout, int rank, WireConfig wire,
                int most_parts);

  /// The type of E, which is fp32 unless this is called.
  void set_type(DType vectors);
  /// Reserves memory for a batch.
  void begin(const RoutedBatch& batch);
  const ReturnedParts& parts() const { return parts_; }

  /// Values that lie `stride` elements of `type` apart.
  struct Place {
    char* data = nullptr;
    DType type = DType::kFloat32;
    int64_t stride = 0;
  };
  /// The vectors of my returned block `block`, as computed, which rank `source` receives.
  Place owned_vectors(size_t block, int source) const;
  Place owned_gradients(size_t block, int source) const;
  /// The vectors of a block of rank `owner` as they arrive, and its gradients as they are sent.
  Place received_vectors(int owner, size_t number, const PooledBlock& block) const;
  Place sent_gradients(int owner, size_t number) const;

  /// What an exchange sends and receives.
  struct Messages {
    const void* send = nullptr;
    void* receive = nullptr;
    const ExchangeLayout& layout;
  };
  /// Converts the vectors of a part to the type in which they are sent.
  Messages send_vectors(size_t part, Ops& ops);
  Messages send_gradients();
  /// Converts gradients that have arrived.
  void convert_gradients(Ops& ops);

 private:
  /// Units of a batch's vectors and of its gradients.
  struct Sizes {
    BufferPositions vectors, gradients;
  };

  void place_parts();
  void reserve(const Sizes& needed, const Sizes& room);
  /// The type in which an owner computes the vectors of a block.
  DType type_of(int owner, const PooledBlock& block) const {
    return parts_.shard(owner, block.shard).rounds ? DType::kBFloat16 : pooled_as(wire_.forward);
  }
  /// Of positions in vectors_. Vectors in fp32 take two units if others are bf16.
  size_t unit_bytes() const {
    return size_of(rounds_ ? DType::kBFloat16 : pooled_as(wire_.forward));
  }
  size_t wire_unit_bytes() const { return rounds_ ? unit_bytes() : size_of(wire_.forward); }
  const PooledLayout& part_of_block(int owner, const PooledBlock& block) const {
    return vectors_[static_cast<size_t>(parts_.part_of(owner, block.shard))];
  }
  Place owned(const PooledLayout& places, size_t block, int source, size_t unit, DType type) const;
  Place requested(const PooledLayout& places, int owner, size_t number, size_t unit, DType type,
                  bool converted) const;

  const EmbeddingLayout& layout_;
  const int rank_;
  const WireConfig wire_;
  const int most_parts_;
  bool rounds_ = false;  ///< some vectors travel in bf16, the others in fp32
  ReturnedParts parts_;
  std::vector<PooledLayout> vectors_;  ///< by part
  PooledLayout gradients_;
  Array<char> pooled_;          ///< vectors of my shards, later their gradients, as computed
  Array<char> owner_wire_;      ///< the same in the wire's type, if that is another one
  Array<char> requester_wire_;  ///< vectors of my samples, later their gradients
};

}  // namespace dlrm
