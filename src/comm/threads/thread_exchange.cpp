#include "thread_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/collectives/exchanges.h"

namespace dlrm::comm {

ThreadExchange::ThreadExchange(std::shared_ptr<ProgressEngine> engine,
                               std::shared_ptr<ThreadGroup> group, int rank, Exchange exchange)
    : Call(std::move(engine)),
      group_(std::move(group)),
      rank_(rank),
      exchange_(std::move(exchange)),
      rendezvous_(group_->enter(exchange_.sequence)) {}

ThreadExchange::~ThreadExchange() {
  if (!left_) withdraw();
  engine().call_pool()->release(std::move(exchange_.layout));
}

void ThreadExchange::start() {
  copy_own_block(exchange_, rank_, engine());
  ThreadRendezvous::Entry& mine = entry(rank_);
  mine.exchange = &exchange_;
  mine.readers.store(group_->ranks() - 1, std::memory_order_relaxed);
  rendezvous_.entered.fetch_add(1, std::memory_order_acq_rel);
  engine().add(*this);
}

bool ThreadExchange::step() {
  if (!copied_ && rendezvous_.entered.load(std::memory_order_acquire) == group_->ranks()) {
    copy_from_all();
  }
  if (copied_ && entry(rank_).readers.load(std::memory_order_acquire) == 0) {
    left_ = true;
    group_->leave(exchange_.sequence);
    return true;
  }
  if (group_->failed_rank() >= 0) throw PeerLost(ExitCode::kFailure, group_->failed_rank());
  return false;
}

void ThreadExchange::copy_from_all() {
  const std::shared_lock lock(rendezvous_.buffers);
  for (int hop = 1; hop < group_->ranks(); ++hop) copy_from((rank_ + hop) % group_->ranks());
  copied_ = true;
}

void ThreadExchange::copy_from(int q) {
  ThreadRendezvous::Entry& theirs = entry(q);
  if (!theirs.exchange) throw PeerLost(ExitCode::kFailure, std::max(group_->failed_rank(), 0));
  check_match(*theirs.exchange, q);
  const ExchangeLayout& layout = theirs.exchange->layout;
  const auto me = static_cast<size_t>(rank_);
  const int64_t bytes = layout.send_bytes[me];
  if (bytes > 0) {
    std::memcpy(static_cast<char*>(exchange_.receive) +
                    exchange_.layout.receive_offsets[static_cast<size_t>(q)],
                static_cast<const char*>(theirs.exchange->send) + layout.send_offsets[me],
                static_cast<size_t>(bytes));
  }
  theirs.readers.fetch_sub(1, std::memory_order_acq_rel);
}

void ThreadExchange::check_match(const Exchange& theirs, int q) const {
  const int64_t sent = theirs.layout.send_bytes[static_cast<size_t>(rank_)];
  const int64_t expected = exchange_.layout.receive_bytes[static_cast<size_t>(q)];
  if (std::strcmp(theirs.name, exchange_.name) == 0 && sent == expected) return;
  throw run_error("{} of rank {} expects {} bytes from rank {}, whose {} sends {}", exchange_.name,
                  rank_, expected, q, theirs.name, sent);
}

/// After a failure. From here on no other rank accesses this rank's buffers.
void ThreadExchange::withdraw() {
  {
    const std::unique_lock lock(rendezvous_.buffers);
    entry(rank_).exchange = nullptr;
  }
  group_->leave(exchange_.sequence);
}

}  // namespace dlrm::comm
