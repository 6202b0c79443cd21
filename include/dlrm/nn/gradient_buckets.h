#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "dlrm/comm/context.h"

namespace dlrm {

/// Sums an array of gradients over all ranks while backward fills it from its end. The array is cut
/// into buckets. The allreduce of a bucket starts as soon as it is complete.
class GradientBuckets {
 public:
  /// Values are sent as `wire`. On one rank nothing is sent, and buckets are complete at once.
  /// `side` is a second stream that gradients are computed on, or null.
  GradientBuckets(Context& context, DType wire, Stream* side);

  /// Cuts `gradients` at `starts`, the ascending offsets of its tensors: each bucket consists of
  /// whole tensors. Elements after the last tensor belong to the bucket that is complete first.
  /// `joined` elements before the first tensor are summed with the bucket that is complete last.
  void cut(View<float> gradients, const std::vector<int64_t>& starts, int64_t size,
           int64_t joined = 0);
  /// The elements from `offset` on are complete.
  void ready_from(int64_t offset);
  void poll();
  /// The first element of the bucket that is complete first, the last elements of the array.
  int64_t first_begin() const { return buckets_.front().begin; }
  /// Makes the context's stream wait for the sum of that bucket, which must be complete.
  void finish_first();
  /// The same for the bucket that is complete last.
  void finish_last();
  /// Makes the context's stream wait for `side` and for all sums. All elements must be complete.
  void finish();

 private:
  struct Bucket {
    int64_t begin = 0;
    int64_t end = 0;
    Pending pending;
  };

  Context& context_;
  Stream* const side_;
  std::unique_ptr<Event> forked_, joined_;  // events between the main stream and side_
  std::function<Pending(View<float>)> start_sum_;
  View<float> gradients_;
  int64_t before_ = 0;           // elements that are not of tensors
  std::vector<Bucket> buckets_;  // from the end of the array to its start
  size_t started_ = 0;
};

}  // namespace dlrm
