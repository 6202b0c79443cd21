#include "batcher.h"

#include <future>

#include "dlrm/core/background_thread.h"

namespace dlrm::serve {

Batcher::Batcher(std::shared_ptr<TrainedModel> model, int64_t batch_size,
                 std::chrono::microseconds wait, Counters& counters)
    : batch_size_(batch_size), wait_(wait), counters_(counters), model_(std::move(model)) {
  try {
    for (int i = 0; i < model_->batches(); ++i) {
      threads_.push_back(background_thread([this] { run(); }));
    }
  } catch (...) {
    end();
    throw;
  }
}

Batcher::~Batcher() { end(); }

void Batcher::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<float> Batcher::predict(Samples samples) {
  std::promise<std::vector<float>> answer;
  predict(model(), std::move(samples),
          [&](std::vector<float> probabilities, std::exception_ptr error) {
            if (error) {
              answer.set_exception(error);
            } else {
              answer.set_value(std::move(probabilities));
            }
          });
  return answer.get_future().get();
}

void Batcher::predict(std::shared_ptr<TrainedModel> model, Samples samples, Done done) {
  if (samples.size == 0) return done({}, nullptr);
  {
    const std::lock_guard lock(mutex_);
    waiting_samples_ += samples.size;
    waiting_.push_back({std::move(model), std::move(samples), std::move(done), Clock::now()});
  }
  arrived_.notify_one();
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
  std::vector<Request> batch;
  std::unique_lock lock(mutex_);
  do {  // another thread may take what has arrived
    arrived_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return {};
    arrived_.wait_until(lock, waiting_.front().arrival + wait_,
                        [&] { return ending_ || waiting_samples_ >= batch_size_; });
  } while (waiting_.empty());
  int64_t samples = 0;
  while (!waiting_.empty()) {
    const int64_t size = waiting_.front().samples.size;
    if (!batch.empty() &&
        (samples + size > batch_size_ || waiting_.front().model != batch[0].model)) {
      break;
    }
    samples += size;
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  waiting_samples_ -= samples;
  if (!waiting_.empty()) arrived_.notify_one();
  return batch;
}

void Batcher::answer(std::vector<Request>& requests) {
  Samples all = std::move(requests[0].samples);
  const int64_t first = all.size;
  TrainedModel& model = *requests[0].model;
  const auto labels = static_cast<std::ptrdiff_t>(model.inputs().labels());
  for (size_t i = 1; i < requests.size(); ++i) all.append(requests[i].samples);
  std::vector<float> probabilities(static_cast<size_t>(all.size * labels));
  try {
    model.predict(all, probabilities);
  } catch (...) {
    for (Request& request : requests) request.done({}, std::current_exception());
    return;
  }
  counters_.add_batch(all.size);
  auto next = probabilities.begin();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto end = next + labels * (i == 0 ? first : requests[i].samples.size);
    requests[i].done({next, end}, nullptr);
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
