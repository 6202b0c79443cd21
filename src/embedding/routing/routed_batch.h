#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/partition.h"

#include "embedding/pooling/owner_side.h"
#include "embedding/pooling/requester_side.h"

namespace dlrm {

/// One global batch in the embeddings of a rank, from route() to drop().
struct RoutedBatch {
  explicit RoutedBatch(Device& device) : requester(device), owner(device) {}

  /// Sets the batch's shape and removes the previous batch's ids.
  void begin(const LocalBags& bags) {
    global_size = bags.global_size;
    local = bags.local;
    owner.begin();
  }

  /// Makes `stream` wait for the copies of all staged arrays. Idempotent.
  void await(Stream& stream) {
    requester.staging().await(stream);
    owner.staging().await(stream);
  }
  /// Allows staged arrays to be overwritten once the work queued on `stream` so far is done.
  void release(Stream& stream) {
    requester.staging().release(stream);
    owner.staging().release(stream);
  }
  /// Appends all sizes and addresses. Operations queued for two batches of equal keys are the same.
  void append_key(std::vector<uint64_t>& key) const;

  int64_t global_size = 0;
  Range local;  ///< this rank's samples
  RequesterSide requester;
  OwnerSide owner;
};

}  // namespace dlrm
