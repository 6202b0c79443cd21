#include "batch_queue.h"

#include <algorithm>

namespace dlrm {

BatchQueue::BatchQueue(Context& context)
    : context_(context), copies_(context.device.make_stream()) {}

BatchQueue::~BatchQueue() { settle(*copies_); }

void BatchQueue::push(const Batch& batch) {
  if (spare_.empty()) spare_.emplace_back(context_.device);
  pending_.push_back(std::move(spare_.front()));  // the least recently used one
  spare_.pop_front();
  PendingBatch& pending = pending_.back();
  pending.global_size = batch.global_size;
  pending.dropped = batch.dropped;
  pending.staging.begin(StagingBuffer::bytes_of<float>(batch.dense.size()) +
                        StagingBuffer::bytes_of<float>(batch.labels.size()));
  const auto stage = [&](const std::vector<float>& values) {
    float* host = pending.staging.take<float>(values.size());
    std::copy(values.begin(), values.end(), host);
    return host;
  };
  pending.dense = {pending.staging.on_device(stage(batch.dense)), batch.dense.size()};
  pending.host_labels = stage(batch.labels);
  pending.labels = {pending.staging.on_device(const_cast<float*>(pending.host_labels)),
                    batch.labels.size()};
  pending.staging.send(*copies_);
}

PendingBatch& BatchQueue::front() {
  pending_.front().staging.await(context_.stream);
  return pending_.front();
}

void BatchQueue::pop() {
  pending_.front().staging.release(context_.stream);
  spare_.push_back(std::move(pending_.front()));
  pending_.pop_front();
}

}  // namespace dlrm
