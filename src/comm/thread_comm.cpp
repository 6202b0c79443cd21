#include "dlrm/comm/thread_comm.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "exchanges.h"
#include "progress.h"

namespace dlrm {
namespace {

/// Which rank of the world failed first, if one did.
class Fate {
 public:
  void fail(int rank) {
    int none = -1;
    failed_.compare_exchange_strong(none, rank);
  }
  int failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> failed_{-1};
};

/// What the ranks show one another of one exchange.
struct Meeting {
  struct Entry {
    const Exchange* exchange = nullptr;  // of a rank that is inside
    std::atomic<int> readers{0};         // ranks that have yet to look and copy here
  };
  explicit Meeting(int ranks) : entries(static_cast<size_t>(ranks)) {}

  std::vector<Entry> entries;
  std::atomic<int> entered{0};
  int left = 0;               // under the group's mutex
  std::shared_mutex buffers;  // shared: copying from others; alone: withdrawing one's own
};

/// Where the threads of one communicator meet: exchange by exchange.
class Group {
 public:
  Group(int ranks, std::shared_ptr<Fate> fate) : ranks_(ranks), fate_(std::move(fate)) {}

  int ranks() const { return ranks_; }
  const Fate& fate() const { return *fate_; }

  Meeting& enter(uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Meeting>& meeting = meetings_[sequence];
    if (!meeting) meeting = fresh();
    return *meeting;
  }

  void leave(uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    const auto found = meetings_.find(sequence);
    Meeting& meeting = *found->second;
    if (++meeting.left < ranks_) return;
    meeting.left = 0;
    meeting.entered.store(0, std::memory_order_relaxed);
    unused_.push_back(std::move(found->second));
    meetings_.erase(found);
  }

  /// The group of every rank's duplicate number `number` of this communicator.
  std::shared_ptr<Group> duplicate(uint64_t number) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Group>& group = duplicates_[number];
    if (!group) group = std::make_shared<Group>(ranks_, fate_);
    return group;
  }

 private:
  std::unique_ptr<Meeting> fresh() {
    if (unused_.empty()) return std::make_unique<Meeting>(ranks_);
    std::unique_ptr<Meeting> meeting = std::move(unused_.back());
    unused_.pop_back();
    return meeting;
  }

  const int ranks_;
  const std::shared_ptr<Fate> fate_;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Meeting>> meetings_;
  std::vector<std::unique_ptr<Meeting>> unused_;
  std::map<uint64_t, std::shared_ptr<Group>> duplicates_;
};

/// One rank's side of an exchange: shows its buffers, copies what is for it from everybody's once
/// all have entered, and is done when nobody needs its own buffers any more.
class ThreadExchange final : public Call {
 public:
  ThreadExchange(std::shared_ptr<ProgressEngine> engine, std::shared_ptr<Group> group, int rank,
                 Exchange exchange)
      : Call(std::move(engine)),
        group_(std::move(group)),
        rank_(rank),
        exchange_(std::move(exchange)),
        meeting_(group_->enter(exchange_.sequence)) {}

  ~ThreadExchange() override {
    if (!left_) withdraw();
    engine().memory()->give_back(std::move(exchange_.layout));
  }

  void start() {
    copy_own_block(exchange_, rank_);
    Meeting::Entry& mine = entry(rank_);
    mine.exchange = &exchange_;
    mine.readers.store(group_->ranks() - 1, std::memory_order_relaxed);
    meeting_.entered.fetch_add(1, std::memory_order_acq_rel);
    engine().add(*this);
  }

 private:
  bool step() override {
    if (!copied_ && meeting_.entered.load(std::memory_order_acquire) == group_->ranks()) {
      copy_from_all();
    }
    if (copied_ && entry(rank_).readers.load(std::memory_order_acquire) == 0) {
      left_ = true;
      group_->leave(exchange_.sequence);
      return true;
    }
    check_alive();
    return false;
  }

  void copy_from_all() {
    const std::shared_lock lock(meeting_.buffers);
    for (int hop = 1; hop < group_->ranks(); ++hop) copy_from((rank_ + hop) % group_->ranks());
    copied_ = true;
  }

  void copy_from(int q) {
    Meeting::Entry& theirs = entry(q);
    if (!theirs.exchange) throw PeerLost(ExitCode::kFailure, std::max(group_->fate().failed(), 0));
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

  void check_match(const Exchange& theirs, int q) const {
    const int64_t sent = theirs.layout.send_bytes[static_cast<size_t>(rank_)];
    const int64_t expected = exchange_.layout.receive_bytes[static_cast<size_t>(q)];
    if (std::strcmp(theirs.name, exchange_.name) == 0 && sent == expected) return;
    throw run_error("{} of rank {} expects {} bytes from rank {}, whose {} sends {}",
                    exchange_.name, rank_, expected, q, theirs.name, sent);
  }

  void check_alive() const {
    if (group_->fate().failed() >= 0) throw PeerLost(ExitCode::kFailure, group_->fate().failed());
  }

  /// After a failure: from here on nobody touches this rank's buffers.
  void withdraw() {
    {
      const std::unique_lock lock(meeting_.buffers);
      entry(rank_).exchange = nullptr;
    }
    group_->leave(exchange_.sequence);
  }

  Meeting::Entry& entry(int q) const { return meeting_.entries[static_cast<size_t>(q)]; }

  std::shared_ptr<Group> group_;
  const int rank_;
  Exchange exchange_;
  Meeting& meeting_;
  bool copied_ = false;
  bool left_ = false;
};

class ThreadComm final : public Communicator {
 public:
  ThreadComm(std::shared_ptr<ProgressEngine> engine, std::shared_ptr<Group> group, int rank)
      : Communicator(std::move(engine)), group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->ranks(); }
  std::string describe() const override { return "threads"; }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<ThreadComm>(engine(), group_->duplicate(duplicates_++), rank_);
  }
  void check_alive() override {
    const int failed = group_->fate().failed();
    if (failed >= 0) throw PeerLost(ExitCode::kFailure, failed);
  }
  Pending start_exchange(Exchange exchange) override {
    return start_call<ThreadExchange>(engine(), group_, rank_, std::move(exchange));
  }

 private:
  std::shared_ptr<Group> group_;
  const int rank_;
  uint64_t duplicates_ = 0;
};

/// Runs one rank; what it threw, unless it only heard of another's failure.
std::exception_ptr run_rank(int rank, const std::shared_ptr<Group>& group, Fate& fate,
                            const std::function<void(Communicator&)>& body,
                            std::exception_ptr& lost) {
  try {
    ThreadComm comm(std::make_shared<ProgressEngine>(Waiting::kThread), group, rank);
    body(comm);
  } catch (const PeerLost&) {
    lost = std::current_exception();
    fate.fail(rank);
  } catch (...) {
    fate.fail(rank);
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

void run_on_threads(int ranks, const std::function<void(Communicator&)>& body) {
  DLRM_CHECK(ranks >= 1, "{} ranks", ranks);
  const auto fate = std::make_shared<Fate>();
  const auto group = std::make_shared<Group>(ranks, fate);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks)), lost(errors.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      errors[r] = run_rank(rank, group, *fate, body, lost[r]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  errors.insert(errors.end(), lost.begin(), lost.end());
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace dlrm
