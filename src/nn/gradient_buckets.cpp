#include "dlrm/nn/gradient_buckets.h"

#include <algorithm>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

/// 1 MiB: long enough for the full rate of the network, short enough to overlap.
constexpr int64_t kBucketElements = 256 * 1024;

}  // namespace

GradientBuckets::GradientBuckets(Context& context, DType wire, Stream* side)
    : context_(context), side_(side) {
  if (side_) {
    forked_ = context.device.make_event();
    joined_ = context.device.make_event();
  }
  start_sum_ = [](View<float>) { return Pending(); };
  if (context.comm.size() == 1) return;
  start_sum_ = [this, wire](View<float> bucket) {
    if (side_) {
      context_.stream.record(*forked_);
      side_->wait(*forked_);
    }
    Stream& complete = side_ ? *side_ : context_.stream;
    return context_.device_comm().start_allreduce<float>(bucket, wire, &complete);
  };
}

void GradientBuckets::cut(View<float> gradients, const std::vector<int64_t>& starts, int64_t size) {
  gradients_ = gradients;
  for (int64_t end = size; end > 0;) {
    const auto first = std::find_if(starts.rbegin(), starts.rend(), [&](int64_t start) {
      return start < end && end - start >= kBucketElements;
    });
    const int64_t begin = first == starts.rend() ? 0 : *first;
    buckets_.push_back({begin, end, Pending()});
    end = begin;
  }
  if (!buckets_.empty()) buckets_.front().end = static_cast<int64_t>(gradients.size());
}

void GradientBuckets::ready_from(int64_t offset) {
  while (started_ < buckets_.size() && buckets_[started_].begin >= offset) {
    Bucket& b = buckets_[started_++];
    b.pending = start_sum_(
        gradients_.subspan(static_cast<size_t>(b.begin), static_cast<size_t>(b.end - b.begin)));
  }
  poll();
}

void GradientBuckets::poll() {
  for (Bucket& b : buckets_) {
    if (!b.pending.done()) b.pending.poll();
  }
}

void GradientBuckets::finish() {
  DLRM_CHECK(started_ == buckets_.size(), "gradients of some layers were never complete");
  if (side_) {
    side_->record(*joined_);
    context_.stream.wait(*joined_);
  }
  for (Bucket& b : buckets_) b.pending.wait(context_.stream);
  started_ = 0;
}

}  // namespace dlrm
