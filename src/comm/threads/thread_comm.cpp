#include "dlrm/comm/thread_comm.h"

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "thread_exchange.h"

namespace dlrm::comm {
namespace {

class ThreadComm final : public Communicator {
 public:
  ThreadComm(std::shared_ptr<ProgressEngine> engine, std::shared_ptr<ThreadGroup> group, int rank)
      : Communicator(std::move(engine)), group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->ranks(); }
  std::string describe() const override { return "threads"; }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<ThreadComm>(engine(), group_->duplicate(duplicates_++), rank_);
  }
  void check_alive() override {
    const int failed = group_->failed_rank();
    if (failed >= 0) throw PeerLost(ExitCode::kFailure, failed);
  }
  Pending start_exchange(Exchange exchange) override {
    return start_call<ThreadExchange>(engine(), group_, rank_, std::move(exchange));
  }

 private:
  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  uint64_t duplicates_ = 0;
};

/// The error that a rank threw: its own, or PeerLost because another rank failed.
struct Outcome {
  std::exception_ptr error, peer_lost;
};

Outcome run_rank(int rank, const std::shared_ptr<ThreadGroup>& group, FirstFailure& failure,
                 const std::function<void(Communicator&)>& body) {
  try {
    ThreadComm comm(std::make_shared<ProgressEngine>(WaitPolicy::kThreads), group, rank);
    body(comm);
  } catch (const PeerLost&) {
    failure.set(rank);
    return {nullptr, std::current_exception()};
  } catch (...) {
    failure.set(rank);
    return {std::current_exception(), nullptr};
  }
  return {};
}

}  // namespace
}  // namespace dlrm::comm

namespace dlrm {

void run_on_threads(int ranks, const std::function<void(Communicator&)>& body) {
  DLRM_CHECK(ranks >= 1, "{} ranks", ranks);
  const auto failure = std::make_shared<comm::FirstFailure>();
  const auto group = std::make_shared<comm::ThreadGroup>(ranks, failure);
  std::vector<comm::Outcome> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<size_t>(rank)] = comm::run_rank(rank, group, *failure, body);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const comm::Outcome& outcome : outcomes) {
    if (outcome.error) std::rethrow_exception(outcome.error);
  }
  for (const comm::Outcome& outcome : outcomes) {
    if (outcome.peer_lost) std::rethrow_exception(outcome.peer_lost);
  }
}

}  // namespace dlrm
