#include "block.h"

#include <cstring>

#include <fmt/format.h>

#include "failure.h"

namespace simt {

constinit thread_local uint64_t block_serial = 0;

BlockRunner& BlockRunner::of_this_thread() {
  static thread_local BlockRunner runner;
  return runner;
}

uint64_t BlockRunner::run(const KernelLaunch& launch, Random& random) {
  start(launch);
  met_ = 0;
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  Order order(blocks, random);
  for (uint64_t i = 0; i < blocks; ++i) run_block(order.next(), random);
  launch_ = nullptr;
  return met_;
}

void BlockRunner::start(const KernelLaunch& launch) {
  launch_ = &launch;
  gridDim = launch.grid;
  blockDim = launch.block;
  threads_count_ = launch.block.x * launch.block.y * launch.block.z;
  if (threads_.size() < threads_count_) {
    threads_.resize(threads_count_);
    states_.resize(threads_count_);
  }
  warps_.resize((threads_count_ + 31) / 32);
  unsigned i = 0;
  for (unsigned z = 0; z < launch.block.z; ++z) {
    for (unsigned y = 0; y < launch.block.y; ++y) {
      for (unsigned x = 0; x < launch.block.x; ++x) threads_[i++].index = {x, y, z};
    }
  }
}

void BlockRunner::run_block(uint64_t block, Random& random) {
  const dim3 grid = launch_->grid;
  blockIdx = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
              static_cast<unsigned>(block / grid.x / grid.y)};
  ++block_serial;
  shared_.start_block(launch_->dynamic_bytes);
  std::memset(static_cast<void*>(states_.data()), 0, threads_count_);
  for (Warp& warp : warps_) {
    warp.ended = 0;
    warp.waiting.clear();
  }
  const unsigned last = threads_count_ % 32;
  if (last != 0) warps_.back().ended = ~0u << last;

  random_ = Random(random.next());
  ready_first_ = random_.below(2) == 0;
  scattered_ = random_.below(4) == 0;
  pick_ = static_cast<int>(random_.below(3));
  thread_order_ = Order(threads_count_, random_);
  warp_order_ = Order(warps_.size(), random_);
  lane_order_ = Order(32, random_);
  fresh_ = threads_count_;
  fresh_lanes_ = 0;
  ready_.clear();
  done_ = at_barrier_ = 0;
  counting_ = {0, 0};
  failure_.clear();

  switch_from(host_, idle_fiber());
  if (failure_.empty() && done_ < threads_count_) failure_ = stuck();
  if (failure_.empty()) {
    const std::string overrun = shared_.overrun();
    if (overrun.empty()) return;
    failure_ = fmt::format("{}: {}", describe(), overrun);
  }
  clear();
  throw Failure(failure_);
}

/// Abandons the state of the block's threads.
void BlockRunner::clear() {
  idle_.clear();
  for (auto& fiber : fibers_) {
    fiber->restart();
    idle_.push_back(fiber.get());
  }
  launch_ = nullptr;
}

Fiber& BlockRunner::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&BlockRunner::enter));
    return *fibers_.back();
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return *fiber;
}

void BlockRunner::switch_from(Fiber& old, Fiber& next) {
  on_ = &next;
  old.switch_to(next);
}

void BlockRunner::enter() {
  Fiber::entered();
  of_this_thread().work();
}

void BlockRunner::work() {
  for (;;) {
    while (fresh_ > 0 && (ready_.empty() || !ready_first_)) {
      become(next_fresh());
      launch_->kernel->run_thread();
      finish();
    }
    Fiber& self = *on_;
    Fiber& next = next_fiber();
    idle_.push_back(&self);
    switch_from(self, next);
  }
}

unsigned BlockRunner::next_fresh() {
  --fresh_;
  if (scattered_) return static_cast<unsigned>(thread_order_.next());
  for (;;) {
    if (fresh_lanes_ == 0) {
      fresh_warp_ = static_cast<unsigned>(warp_order_.next());
      fresh_lanes_ = 32;
    }
    --fresh_lanes_;
    const unsigned thread = fresh_warp_ * 32 + static_cast<unsigned>(lane_order_.next());
    if (thread < threads_count_) return thread;
  }
}

void BlockRunner::become(unsigned thread) {
  current_ = thread;
  threadIdx = threads_[thread].index;
  states_[thread] = ThreadState::kRunning;
}

/// The next fiber to run: a ready thread, one that has not started, or the host if none is left.
Fiber& BlockRunner::next_fiber() {
  if (!ready_.empty() && (ready_first_ || fresh_ == 0)) {
    const size_t at = pick_ == 0   ? ready_.size() - 1
                      : pick_ == 1 ? 0
                                   : random_.below(ready_.size());
    const unsigned thread = ready_[at];
    ready_[at] = ready_.back();
    ready_.pop_back();
    become(thread);
    return *threads_[thread].fiber;
  }
  return fresh_ > 0 ? idle_fiber() : host_;
}

void BlockRunner::wait(ThreadState state) {
  const unsigned thread = current_;
  Fiber& self = *on_;
  states_[thread] = state;
  threads_[thread].fiber = &self;
  Fiber& next = next_fiber();
  if (&next != &self) switch_from(self, next);  // the last thread at a barrier may be chosen again
}

void BlockRunner::wake(unsigned thread) {
  states_[thread] = ThreadState::kReady;
  ready_.push_back(thread);
}

void BlockRunner::finish() {
  states_[current_] = ThreadState::kDone;
  ++done_;
  Warp& warp = warps_[current_ / 32];
  const unsigned bit = 1u << current_ % 32;
  warp.ended |= bit;
  const bool missed = [&] {
    for (const LaneGroup& group : warp.waiting) {
      if (group.mask & bit) return true;
    }
    return false;
  }();
  if (missed || at_barrier_ > 0) fail(stuck());
}

Votes BlockRunner::barrier(int value, const Where& where) {
  threads_[current_].where = where;
  if (at_barrier_ == 0) {
    barrier_where_ = where;
  } else if (where.line() != barrier_where_.line() ||
             std::strcmp(where.file_name(), barrier_where_.file_name()) != 0) {
    std::string defect =
        fmt::format("{}: divergence at a barrier: {} is at {}:{}, others wait at {}:{}", describe(),
                    name(current_), where.file_name(), where.line(), barrier_where_.file_name(),
                    barrier_where_.line());
    fail(std::move(defect));
  }
  ++at_barrier_;
  counting_.count += value != 0;
  ++counting_.threads;
  if (done_ > 0) {
    states_[current_] = ThreadState::kAtBarrier;
    fail(stuck());
  }
  if (at_barrier_ < threads_count_) {
    wait(ThreadState::kAtBarrier);
    return votes_;
  }
  ++met_;
  votes_ = counting_;
  counting_ = {0, 0};
  at_barrier_ = 0;
  for (unsigned thread = 0; thread < threads_count_; ++thread) {
    if (thread != current_) wake(thread);
  }
  if (random_.below(2) == 0) return votes_;
  wake(current_);
  wait(ThreadState::kReady);
  return votes_;
}

/// The calling stack is abandoned: objects on it would never be destroyed.
void BlockRunner::fail(std::string&& defect) {
  std::string().swap(failure_);
  failure_.swap(defect);
  switch_from(*on_, host_);
  __builtin_unreachable();
}

}  // namespace simt
