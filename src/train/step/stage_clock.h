#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"

namespace dlrm {

/// Times stages by a device's clock. A stage begins when the stream reaches its first operation,
/// and ends when the stream has passed its last one. Waits for other streams and for other ranks
/// are part of a stage.
class StageClock {
 public:
  /// Waits for the stream, in order to read both clocks at the same moment.
  explicit StageClock(Context& context);

  void begin(const char* name);
  void end() noexcept;
  /// Adds the stages that the stream has passed to the trace. Does not wait.
  void collect();
  /// Waits for all stages and adds them.
  void finish();

 private:
  struct Mark {
    const char* name;  ///< null: a stage's end
    std::unique_ptr<Event> event;
  };

  void mark(const char* name);

  Context& context_;
  std::unique_ptr<Event> last_;  ///< the last mark passed
  double last_ns_ = 0;           ///< its time in the trace
  std::deque<Mark> marks_;
  std::vector<std::unique_ptr<Event>> spare_;
  const char* open_ = nullptr;
  int64_t opened_ns_ = 0;
};

}  // namespace dlrm
