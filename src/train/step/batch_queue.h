#pragma once
#include <cstdint>
#include <deque>
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/core/targets.h"
#include "dlrm/data/batch.h"
#include "dlrm/device/staging_buffer.h"

namespace dlrm {

/// The part of a routed batch that stays on this rank: dense features, labels and weights.
struct PendingBatch {
  explicit PendingBatch(Device& device) : staging(device, "dense features and labels") {}

  StagingBuffer staging;
  View<const float> dense;  ///< [b, dense_features], device memory
  Targets targets;          ///< [labels, b], device memory
  Targets host_targets;     ///< [labels, b], the staging buffer's host side
  int64_t global_size = 0;
  int64_t local_size = 0;    ///< b
  int64_t first_sample = 0;  ///< of this rank in the global batch
  int64_t dropped = 0;       ///< invalid ids left out of this rank's samples
  int64_t content = 0;       ///< of the batch that the buffers hold, see Batch
};

/// Batches that were routed and wait for their step, oldest first. Buffers are reused: a steady
/// state allocates nothing.
class BatchQueue {
 public:
  /// Copies are divided among `threads` threads of the host.
  BatchQueue(Context& context, int threads);
  ~BatchQueue();

  /// Copies the batch's dense features, labels and weights and starts their copy to the device,
  /// unless the buffers hold its content.
  void push(const Batch& batch);
  /// The oldest batch. Work queued from now on may read it.
  PendingBatch& front();
  /// Ends the oldest batch. Its buffers are reused once the work queued so far is done.
  void pop();
  int size() const { return static_cast<int>(pending_.size()); }
  bool empty() const { return pending_.empty(); }

 private:
  Context& context_;
  const int threads_;
  std::unique_ptr<Stream> copies_;
  std::deque<PendingBatch> pending_;
  std::deque<PendingBatch> spare_;
};

}  // namespace dlrm
