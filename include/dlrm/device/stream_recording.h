#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dlrm {

/// One operation that was queued on a GPU's streams.
struct QueuedOperation {
  enum class Kind : uint8_t {
    kKernel,
    kLibrary,  ///< a call of a library: a product, a sort, a part of a collective
    kCopy,
    kFill,
    kHostFunction,
    kFree,
    kMark,  ///< takes no time: an event, or a wait for one
  };

  Kind kind = Kind::kMark;
  std::string name;  ///< of a kernel: where it is launched, as "kernels/dot.cu:57"
  int label = -1;    ///< of the thread that queued it
  int stream = -1;   ///< streams are numbered in the order of their first operation; -1: none
  int priority = 0;  ///< of the stream; work of less is started first
  /// Not 0: a part of this collective call, which has the same number on all ranks.
  uint64_t collective = 0;
  double flops = 0;                 ///< of a product
  double bytes = 0;                 ///< of a copy, a fill, or a part of a collective
  int64_t blocks = 0, threads = 0;  ///< of a kernel: in its grid, and in a block
  std::vector<int> needs;  ///< earlier operations of the recording, which end before it begins
};

/// A point at which a host thread learnt that an operation had ended.
struct HostWait {
  int label = -1;
  int operation = -1;    ///< the last one that the thread has waited for
  bool blocked = false;  ///< the call waited; otherwise it asked, once or repeatedly
};

struct QueuedOperations {
  std::vector<QueuedOperation> operations;  ///< in the order in which they were queued
  std::vector<HostWait> waits;              ///< in the order of time
};

/// Records what all threads queue on the streams of an emulated GPU. What a thread queues after it
/// waited for an operation depends on that operation.
class StreamRecorder {
 public:
  virtual ~StreamRecorder() = default;
  /// Ends the recording.
  virtual QueuedOperations take() = 0;
};

/// `label` is called on the thread that queues an operation. Null if the GPU is not emulated. There
/// is one recording at a time.
std::unique_ptr<StreamRecorder> record_streams(std::function<int()> label);

}  // namespace dlrm
