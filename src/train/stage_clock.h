#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"

namespace dlrm {

/// Times stages by when a device's stream gets to their beginning and their end: the host is
/// further on by then. What a stage waits for on other streams is part of it.
class StageClock {
 public:
  /// Waits for the stream: that moment is known to both clocks.
  explicit StageClock(Context& context);

  void begin(const char* name);
  void end() noexcept;
  /// Adds the stages that the stream has passed to the trace.
  void collect();
  /// Waits for all of them.
  void finish();

 private:
  struct Mark {
    const char* name;  ///< null: of the end
    std::unique_ptr<Event> event;
  };

  void mark(const char* name);

  Context& context_;
  std::unique_ptr<Event> last_;  ///< the last mark passed ...
  double last_ns_ = 0;           ///< ... as the trace counts
  std::deque<Mark> marks_;
  std::vector<std::unique_ptr<Event>> spare_;
  const char* open_ = nullptr;
  int64_t opened_ns_ = 0;
};

}  // namespace dlrm
