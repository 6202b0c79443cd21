#include "dlrm/nn/gradient_buckets.h"

#include "dlrm/core/error.h"
#include "dlrm/wire/gradient_buckets.h"

namespace dlrm {

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

void GradientBuckets::cut(View<float> gradients, const std::vector<int64_t>& starts, int64_t size,
                          int64_t joined) {
  gradients_ = gradients;
  before_ = joined;
  for (const Range& bucket : gradient_buckets(starts, size, context_.device.asynchronous())) {
    buckets_.push_back({bucket.begin, bucket.end, Pending()});
  }
  if (!buckets_.empty()) buckets_.front().end = static_cast<int64_t>(gradients.size()) - joined;
}

void GradientBuckets::ready_from(int64_t offset) {
  while (started_ < buckets_.size() && buckets_[started_].begin >= offset) {
    Bucket& b = buckets_[started_++];
    const int64_t begin = started_ == buckets_.size() ? 0 : before_ + b.begin;
    b.pending = start_sum_(gradients_.subspan(static_cast<size_t>(begin),
                                              static_cast<size_t>(before_ + b.end - begin)));
  }
  poll();
}

void GradientBuckets::poll() {
  for (Bucket& b : buckets_) b.pending.poll();
}

void GradientBuckets::finish_first() {
  DLRM_CHECK(started_ > 0, "gradients of the last layers were never complete");
  buckets_.front().pending.wait(context_.stream);
}

void GradientBuckets::finish_last() {
  DLRM_CHECK(started_ == buckets_.size(), "gradients of the first layers were never complete");
  buckets_.back().pending.wait(context_.stream);
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
