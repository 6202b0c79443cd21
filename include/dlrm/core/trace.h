#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dlrm {

/// Records where a rank's time goes: the time of each stage, and every span if events are kept.
/// Used by the rank's main thread. Any thread may read `current()`.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  struct Event {
    const char* name;
    int64_t begin_ns;  ///< since the trace's start
    int64_t end_ns;
  };
  struct Total {
    const char* name;
    int64_t ns = 0;
    int64_t count = 0;
  };

  explicit Trace(bool keep_events = false) : keep_(keep_events), start_(Clock::now()) {}

  /// The stage that runs now, or "idle". The watchdog reports it. Names are literals.
  const char* current() const { return current_->load(std::memory_order_relaxed); }
  /// Like current(), for a thread that may outlive this trace.
  std::shared_ptr<const std::atomic<const char*>> shared_current() const { return current_; }
  const std::vector<Total>& totals() const { return totals_; }
  const std::vector<Event>& events() const { return events_; }
  void reset_totals() { totals_.clear(); }
  /// If off, stages that end do not count in the totals. Evaluations use this, because they are not
  /// part of a step.
  void count_totals(bool on) { counting_ = on; }
  /// Adds a stage that was timed elsewhere, for example by a device.
  void add(const char* name, int64_t begin_ns, int64_t end_ns) {
    finish(name, begin_ns, end_ns, 0);
  }
  int64_t now_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  /// The time of day at which the trace began, ns since 1970. It aligns the tracks of several
  /// ranks.
  int64_t epoch_ns() const { return epoch_ns_; }

 private:
  friend class Span;
  void finish(const char* name, int64_t begin_ns, int64_t end_ns, int64_t inner_ns);

  bool keep_;
  bool counting_ = true;
  Clock::time_point start_;
  int64_t epoch_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  std::shared_ptr<std::atomic<const char*>> current_ =
      std::make_shared<std::atomic<const char*>>("idle");
  int64_t inner_ns_ = 0;  // time of the spans nested in the open one
  std::vector<Total> totals_;
  std::vector<Event> events_;
};

/// One traced stage, from construction to destruction. `name` is a literal. Spans may be nested. A
/// stage's total excludes the stages nested in it, so totals add up to the time covered. If `timed`
/// is false, the span only sets current().
class Span {
 public:
  Span(Trace& trace, const char* name, bool timed = true);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Trace& trace_;
  const char* name_;
  const char* outer_;
  int64_t outer_inner_ns_;
  int64_t begin_ns_;
  bool timed_;
};

}  // namespace dlrm
