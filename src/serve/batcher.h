#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "counters.h"
#include "trained_model.h"

namespace dlrm::serve {

/// Predicts the samples of requests of several threads together, on a thread for each batch that
/// the model can predict at the same time. Each takes what has arrived, and waits for more until
/// there are `batch_size` samples, or until its first request has waited for `wait`. Requests are
/// not cut.
class Batcher {
 public:
  Batcher(std::shared_ptr<TrainedModel> model, int64_t batch_size, std::chrono::microseconds wait,
          Counters& counters);
  /// Answers the requests that wait.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// The probabilities [size, labels] of samples of the model in use. Waits for them. Rethrows what
  /// the model throws. Any thread may call it.
  std::vector<float> predict(Samples samples);
  /// The probabilities, or the error that the model threw.
  using Done = std::function<void(std::vector<float>, std::exception_ptr)>;
  /// The same of samples that were made for `model`, without waiting. Calls `done` once, on the
  /// a thread of the batches or on this one. It must not throw.
  void predict(std::shared_ptr<TrainedModel> model, Samples samples, Done done);

  /// The model of requests from now on. Those that wait are predicted by the model that they were
  /// made for.
  void use(std::shared_ptr<TrainedModel> model);
  std::shared_ptr<TrainedModel> model() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::shared_ptr<TrainedModel> model;
    Samples samples;
    Done done;
    Clock::time_point arrival;
  };
  void end();
  void run();
  /// Waits for a batch of one model. Returns no request at the end.
  std::vector<Request> next();
  void answer(std::vector<Request>& requests);

  const int64_t batch_size_;
  const std::chrono::microseconds wait_;
  Counters& counters_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::shared_ptr<TrainedModel> model_;
  std::deque<Request> waiting_;
  int64_t waiting_samples_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dlrm::serve
