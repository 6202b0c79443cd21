#include "stage_clock.h"

#include <utility>

namespace dlrm {

StageClock::StageClock(Context& context)
    : context_(context), last_(context.device.make_timed_event()) {
  context_.stream.record(*last_);
  last_->synchronize();
  last_ns_ = static_cast<double>(context_.trace.now_ns());
}

void StageClock::begin(const char* name) { mark(name); }

void StageClock::end() noexcept {
  try {
    mark(nullptr);
  } catch (const Error&) {
    // The device has failed. The next wait for it reports that.
  }
}

void StageClock::mark(const char* name) {
  if (spare_.empty()) spare_.push_back(context_.device.make_timed_event());
  Mark& mark = marks_.emplace_back(Mark{name, std::move(spare_.back())});
  spare_.pop_back();
  context_.stream.record(*mark.event);
}

void StageClock::collect() {
  while (!marks_.empty() && marks_.front().event->reached()) {
    Mark mark = std::move(marks_.front());
    marks_.pop_front();
    // Times are added from mark to mark. Milliseconds in a float are exact enough for a step, but
    // not for a run.
    last_ns_ += mark.event->milliseconds_since(*last_) * 1e6;
    spare_.push_back(std::exchange(last_, std::move(mark.event)));
    const auto now = static_cast<int64_t>(last_ns_);
    if (open_) context_.trace.add(open_, opened_ns_, now);
    open_ = mark.name;
    opened_ns_ = now;
  }
}

void StageClock::finish() {
  if (!marks_.empty()) marks_.back().event->synchronize();
  collect();
}

}  // namespace dlrm
