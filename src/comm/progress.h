#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "activity.h"
#include "call_memory.h"
#include "scratch.h"

namespace dlrm {

class Call;

/// What can fail by itself, while its rank waits for something else. The watchdog asks it.
class Health {
 public:
  virtual ~Health() = default;
  /// What failed, in one line; empty: nothing. From any thread, and does not block.
  virtual std::string failure() = 0;
};

/// How a waiting rank spends its time between polls.
enum class Waiting {
  kSpin,  ///< a core of its own: polls without pause at first, and sleeps when it takes long
  kSpinForMessages,  ///< the same, but never sleeps, as only polls move messages between machines
  kYield,            ///< more threads than cores: gives the core away after each poll, and sleeps
                     ///< before long
  kThread,           ///< ranks are threads that copy by themselves: sleeps before long
};

/// One rank's calls in flight, on a communicator and its duplicates. Moving all of them on whenever
/// one is polled is what lets ranks wait in different orders.
class ProgressEngine {
 public:
  explicit ProgressEngine(Waiting waiting) : waiting_(waiting) {}

  void add(Call& call);
  void remove(Call& call);
  /// Steps every call in flight once. Does nothing where a step of this engine is the caller.
  void advance();
  void relax(int64_t polls) const;
  void set_waiting(Waiting waiting) { waiting_.store(waiting, std::memory_order_relaxed); }
  std::recursive_mutex& mutex() { return mutex_; }
  const std::shared_ptr<CallMemory>& memory() const { return memory_; }
  /// Under mutex() only.
  ScratchPool& scratch() { return scratch_; }

  /// A call was destroyed that was not done: this rank's calls and its peers' no longer match.
  void abandon() { abandoned_.store(true); }
  bool abandoned() const { return abandoned_.load(); }

  /// Goes up with every call entered or completed.
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  void count_progress() { progress_.fetch_add(1, std::memory_order_relaxed); }

  void add(Health& health);
  void remove(Health& health);
  /// The first failure among what was added; empty: none.
  std::string failure() const;

  std::unique_ptr<Activity> make_activity();
  void forget(const Activity& activity);
  /// Calls visit(activity) for the activity of every communicator of this engine.
  template <class Visit>
  void each_activity(Visit visit) const {
    const std::lock_guard lock(activities_mutex_);
    for (const Activity* activity : activities_) visit(*activity);
  }

 private:
  std::atomic<Waiting> waiting_;
  std::recursive_mutex mutex_;
  const std::shared_ptr<CallMemory> memory_ = std::make_shared<CallMemory>();
  std::vector<Call*> calls_;
  bool advancing_ = false;
  std::atomic<bool> abandoned_{false};
  ScratchPool scratch_;
  std::atomic<uint64_t> progress_{0};

  mutable std::mutex activities_mutex_;
  std::vector<const Activity*> activities_;
  int next_activity_ = 0;
  mutable std::mutex health_mutex_;
  std::vector<Health*> health_;
};

/// A call in flight. Derived classes say what a step is.
class Call : public Pending::State, public InCallMemory {
 public:
  explicit Call(std::shared_ptr<ProgressEngine> engine) : engine_(std::move(engine)) {}
  ~Call() override { engine_->remove(*this); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool poll() final;
  void relax(int64_t polls) final { engine_->relax(polls); }
  bool abandoned() const final { return engine_->abandoned(); }
  void abandon() final { engine_->abandon(); }

 protected:
  /// Moves on without blocking; true once done. Runs under the engine's mutex; what it throws is
  /// thrown by the poll of this call.
  virtual bool step() = 0;
  bool done() const { return done_; }
  ProgressEngine& engine() const { return *engine_; }

 private:
  friend class ProgressEngine;
  std::shared_ptr<ProgressEngine> engine_;
  bool done_ = false;
  std::exception_ptr error_;
};

inline std::shared_ptr<CallMemory> memory_of(const Communicator& comm) {
  return comm.engine()->memory();
}
inline std::shared_ptr<CallMemory> memory_of(const std::shared_ptr<ProgressEngine>& engine) {
  return engine->memory();
}
template <class Other>
std::shared_ptr<CallMemory> memory_of(const Other&) {
  return nullptr;
}

/// Starts a call of class T.
template <class T, class First, class... Args>
Pending start_call(First&& first, Args&&... args) {
  const std::shared_ptr<CallMemory> memory = memory_of(first);
  std::unique_ptr<T> call(new (memory) T(std::forward<First>(first), std::forward<Args>(args)...));
  call->start();
  return Pending(std::move(call));
}

/// Scratch memory that goes back to its engine with its owner.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<ProgressEngine> engine) : engine_(std::move(engine)) {}
  ~Scratch() {
    const std::lock_guard lock(engine_->mutex());
    engine_->scratch().give_back(std::move(block_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void take(int64_t bytes) {
    const std::lock_guard lock(engine_->mutex());
    block_ = engine_->scratch().take(static_cast<size_t>(bytes));
  }
  template <class T>
  T* as() const {
    return block_.as<T>();
  }

 private:
  std::shared_ptr<ProgressEngine> engine_;
  ScratchPool::Block block_;
};

}  // namespace dlrm
