#include "batch_queue.h"

#include <algorithm>

#include "dlrm/core/parallel.h"

namespace dlrm {

BatchQueue::BatchQueue(Context& context, int threads)
    : context_(context), threads_(threads), copies_(context.device.make_stream()) {}

BatchQueue::~BatchQueue() { settle(*copies_); }

void BatchQueue::push(const Batch& batch) {
  constexpr int64_t kGrain = 16 * 1024;  // bytes for which a thread is worth its start
  if (spare_.empty()) spare_.emplace_back(context_.device);
  pending_.push_back(std::move(spare_.front()));  // the least recently used one
  spare_.pop_front();
  PendingBatch& pending = pending_.back();
  pending.global_size = batch.global_size;
  pending.local_size = batch.size();
  pending.first_sample = batch.local.begin;
  pending.dropped = batch.dropped;
  if (batch.content != 0 && batch.content == pending.content) return;
  pending.content = batch.content;
  pending.staging.begin(StagingBuffer::bytes_of<float>(batch.dense.size()) +
                        StagingBuffer::bytes_of<float>(batch.labels.size()) +
                        StagingBuffer::bytes_of<float>(batch.weights.size()));
  const auto stage = [&](const std::vector<float>& values, View<const float>& on_device) {
    on_device = {};
    if (values.empty()) return on_device;
    float* host = pending.staging.take<float>(values.size());
    parallel_ranges(threads_, std::ssize(values), sizeof(float), kGrain,
                    [&](int64_t begin, int64_t end) {
                      std::copy(values.begin() + begin, values.begin() + end, host + begin);
                    });
    on_device = {pending.staging.on_device(host), values.size()};
    return View<const float>(host, values.size());
  };
  stage(batch.dense, pending.dense);
  pending.host_targets.labels = stage(batch.labels, pending.targets.labels);
  pending.host_targets.weights = stage(batch.weights, pending.targets.weights);
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
