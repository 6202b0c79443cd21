#pragma once
#include <memory>
#include <string>
#include <vector>

#include "fiber.h"
#include "order.h"
#include "shared_memory.h"
#include "simt/launch.h"
#include "simt/threads.h"
#include "simt/warp.h"

namespace simt {

enum class ThreadState : unsigned char { kFresh, kRunning, kReady, kAtBarrier, kAtWarp, kDone };

/// A lane's arguments of a warp operation, and its result.
struct Request {
  WarpOp op;
  bool is_signed;
  int argument, width;
  unsigned mask;
  unsigned long long value, result;
};

/// A thread of the running block.
struct Thread {
  uint3 index;
  Fiber* fiber;  ///< while the thread waits
  Where where;   ///< the operation at which it waits
  Request request;
};

/// Lanes of one warp that wait for each other.
struct LaneGroup {
  unsigned mask, arrived;
};

struct Warp {
  unsigned ended = 0;  ///< lanes that have ended or are beyond the block
  std::vector<LaneGroup> waiting;
};

/// Runs a launch's blocks one after another on the calling host thread. A thread that never waits
/// runs to its end and leaves its stack to the next thread. A thread that waits keeps its stack,
/// and another thread continues.
class BlockRunner {
 public:
  static BlockRunner& of_this_thread();

  /// Returns how often lanes met in a warp operation, or threads at a barrier. Throws Failure if it
  /// finds a defect.
  uint64_t run(const KernelLaunch& launch, Random& random);
  bool running() const { return launch_ != nullptr; }
  /// "kernel launched at file:line, block (x,y,z)". describe_thread() adds the running thread.
  std::string describe() const;
  std::string describe_thread() const { return describe() + ", " + name(current_); }

  // Called by the running thread.
  Votes barrier(int value, const Where& where);
  unsigned long long warp_op(const Request& request, const Where& where);
  [[noreturn]] void fail(std::string&& defect);
  SharedMemory& shared() { return shared_; }
  const Warp& warp() const { return warps_[current_ / 32]; }
  int lane() const { return static_cast<int>(current_ % 32); }

 private:
  void start(const KernelLaunch& launch);
  void run_block(uint64_t block, Random& random);
  void work();
  static void enter();
  unsigned next_fresh();
  void become(unsigned thread);
  void finish();
  void wait(ThreadState state);
  void wake(unsigned thread);
  Fiber& next_fiber();
  void switch_from(Fiber& old, Fiber& next);
  Fiber& idle_fiber();
  void complete(unsigned warp, unsigned mask);
  void check_same(const Request& request, const Where& where, unsigned other);
  void clear();
  std::string stuck() const;
  std::string name(unsigned thread) const;
  std::string doing(unsigned thread) const;

  const KernelLaunch* launch_ = nullptr;
  unsigned threads_count_ = 0;
  std::vector<Thread> threads_;
  std::vector<ThreadState> states_;
  std::vector<Warp> warps_;
  SharedMemory shared_;

  Fiber host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* on_ = nullptr;
  unsigned current_ = 0;

  // Random choices of the running block.
  bool ready_first_ = true, scattered_ = false;
  int pick_ = 0;
  Order thread_order_, warp_order_, lane_order_;
  unsigned fresh_ = 0, fresh_warp_ = 0, fresh_lanes_ = 0;
  std::vector<unsigned> ready_;
  Random random_{0};

  uint64_t met_ = 0;
  unsigned done_ = 0;
  unsigned at_barrier_ = 0;
  Where barrier_where_;
  Votes votes_{0, 0}, counting_{0, 0};
  std::string failure_;
};

}  // namespace simt
