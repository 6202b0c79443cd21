#include "batcher.h"

#include "dlrm/core/background_thread.h"

namespace dlrm::serve {

Batcher::Batcher(std::shared_ptr<TrainedModel> model, int64_t batch_size,
                 std::chrono::microseconds wait, Counters& counters)
    : batch_size_(batch_size), wait_(wait), counters_(counters), model_(std::move(model)) {
  thread_ = background_thread([this] { run(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_all();
  thread_.join();
}

std::vector<float> Batcher::predict(Samples samples) {
  if (samples.size == 0) return {};
  std::future<std::vector<float>> answer;
  {
    const std::lock_guard lock(mutex_);
    waiting_samples_ += samples.size;
    waiting_.push_back({std::move(samples), {}, Clock::now()});
    answer = waiting_.back().answer.get_future();
  }
  arrived_.notify_one();
  return answer.get();
}

void Batcher::use(std::shared_ptr<TrainedModel> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

std::shared_ptr<TrainedModel> Batcher::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

std::vector<Batcher::Request> Batcher::next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
  if (waiting_.empty()) return {};
  arrived_.wait_until(lock, waiting_.front().arrival + wait_,
                      [&] { return ending_ || waiting_samples_ >= batch_size_; });
  std::vector<Request> batch;
  int64_t samples = 0;
  while (!waiting_.empty()) {
    const int64_t size = waiting_.front().samples.size;
    if (!batch.empty() && samples + size > batch_size_) break;
    samples += size;
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  waiting_samples_ -= samples;
  return batch;
}

void Batcher::answer(std::vector<Request>& requests) {
  Samples all = std::move(requests[0].samples);
  const int64_t first = all.size;
  for (size_t i = 1; i < requests.size(); ++i) all.append(requests[i].samples);
  std::vector<float> probabilities(static_cast<size_t>(all.size));
  try {
    model()->predict(all, probabilities);
  } catch (...) {
    for (Request& request : requests) request.answer.set_exception(std::current_exception());
    return;
  }
  counters_.add_batch(all.size);
  auto next = probabilities.begin();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto end = next + (i == 0 ? first : requests[i].samples.size);
    requests[i].answer.set_value({next, end});
    next = end;
  }
}

void Batcher::run() {
  for (;;) {
    std::vector<Request> batch = next();
    if (batch.empty()) return;
    answer(batch);
  }
}

}  // namespace dlrm::serve
