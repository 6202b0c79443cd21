#include "dlrm/core/trace.h"

#include <algorithm>
#include <cstring>

namespace dlrm {

void Trace::finish(const char* name, int64_t begin_ns, int64_t end_ns, int64_t inner_ns) {
  if (keep_) events_.push_back({name, begin_ns, end_ns});
  if (!counting_) return;
  auto total = std::find_if(totals_.begin(), totals_.end(),
                            [&](const Total& t) { return std::strcmp(t.name, name) == 0; });
  if (total == totals_.end()) total = totals_.insert(totals_.end(), Total{name, 0, 0});
  total->ns += end_ns - begin_ns - inner_ns;
  ++total->count;
}

Span::Span(Trace& trace, const char* name, bool timed)
    : trace_(trace),
      name_(name),
      outer_(trace.current_->exchange(name, std::memory_order_relaxed)),
      outer_inner_ns_(trace.inner_ns_),
      begin_ns_(trace.now_ns()),
      timed_(timed) {
  trace_.inner_ns_ = 0;
}

Span::~Span() {
  const int64_t end_ns = trace_.now_ns();
  if (timed_) trace_.finish(name_, begin_ns_, end_ns, trace_.inner_ns_);
  trace_.inner_ns_ = outer_inner_ns_ + (end_ns - begin_ns_);
  trace_.current_->store(outer_, std::memory_order_relaxed);
}

}  // namespace dlrm
