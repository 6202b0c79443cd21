#pragma once
#include <functional>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dlrm/device/stream_recording.h"

#include "operation.h"

struct SimtStream;

namespace simt {

/// Lists the operations that are queued while it exists. The machine's mutex protects it.
class Recorder {
 public:
  explicit Recorder(std::function<int()> label) : label_(std::move(label)) {}

  void queued(const OperationPtr& operation, const std::vector<OperationPtr>& needs,
              const SimtStream* stream);
  /// The calling thread knows that `operation` has ended.
  void waited(const OperationPtr& operation, bool blocked);

  dlrm::QueuedOperations take() { return std::move(recorded_); }

 private:
  void add_need(std::vector<int>& needs, const OperationPtr& need) const;

  const std::function<int()> label_;
  dlrm::QueuedOperations recorded_;
  std::vector<OperationPtr> kept_;  // so that no address occurs twice
  std::unordered_map<const Operation*, int> numbers_;
  std::map<const SimtStream*, int> streams_;
  std::map<std::thread::id, int> known_;  // the last operation that the thread has waited for
};

}  // namespace simt
