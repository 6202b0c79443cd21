#pragma once
#include <exception>
#include <memory>
#include <utility>

#include "dlrm/comm/communicator.h"

#include "progress_engine.h"

namespace dlrm::comm {

/// A call in flight. Derived classes implement step().
class Call : public Pending::State, public PooledCall {
 public:
  explicit Call(std::shared_ptr<ProgressEngine> engine) : engine_(std::move(engine)) {}
  ~Call() override { engine_->remove(*this); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool poll() final;
  void back_off(int64_t polls) final { engine_->back_off(polls); }
  bool abandoned() const final { return engine_->abandoned(); }
  void abandon() final { engine_->abandon(); }

 protected:
  /// Makes progress without blocking. Returns true once done. Runs under the engine's mutex. The
  /// call's poll() rethrows what it throws.
  virtual bool step() = 0;
  ProgressEngine& engine() const { return *engine_; }

 private:
  friend class ProgressEngine;
  std::shared_ptr<ProgressEngine> engine_;
  bool done_ = false;
  std::exception_ptr error_;
};

inline const std::shared_ptr<CallPool>& call_pool_of(const Communicator& comm) {
  return comm.engine()->call_pool();
}
inline const std::shared_ptr<CallPool>& call_pool_of(
    const std::shared_ptr<ProgressEngine>& engine) {
  return engine->call_pool();
}

/// Makes and starts a call of class T in the pool of `first`, T's first argument.
template <class T, class First, class... Args>
Pending start_call(First&& first, Args&&... args) {
  const std::shared_ptr<CallPool> pool = call_pool_of(first);
  std::unique_ptr<T> call(new (pool) T(std::forward<First>(first), std::forward<Args>(args)...));
  call->start();
  return Pending(std::move(call));
}

}  // namespace dlrm::comm
