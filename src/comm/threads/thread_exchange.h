#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"

#include "comm/calls/call.h"
#include "thread_group.h"

namespace dlrm::comm {

/// One rank's side of an exchange among threads. Each rank copies its blocks from the buffers of
/// the others once all ranks have entered. It is done when no rank needs its buffers any more.
class ThreadExchange final : public Call {
 public:
  ThreadExchange(std::shared_ptr<ProgressEngine> engine, std::shared_ptr<ThreadGroup> group,
                 int rank, Exchange exchange);
  ~ThreadExchange() override;
  void start();

 private:
  bool step() override;
  void copy_from_all();
  void copy_from(int q);
  void check_match(const Exchange& theirs, int q) const;
  void withdraw();
  ThreadRendezvous::Entry& entry(int q) const {
    return rendezvous_.entries[static_cast<size_t>(q)];
  }

  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  Exchange exchange_;
  ThreadRendezvous& rendezvous_;
  bool copied_ = false;
  bool left_ = false;
};

}  // namespace dlrm::comm
