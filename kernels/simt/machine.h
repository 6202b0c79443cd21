#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "device_memory.h"
#include "failure.h"
#include "operation.h"
#include "order.h"
#include "pinned_memory.h"
#include "simt/graph_api.h"

/// A node of a graph: work, and the nodes that come before it.
struct SimtGraphNode {
  std::shared_ptr<const simt::Work> work;
  std::vector<size_t> needs;
};

struct SimtGraph {
  std::vector<SimtGraphNode> nodes;
};

struct SimtGraphExec {
  SimtGraph graph;
  simt::OperationPtr last;  ///< the end of the launch before
};

namespace simt {

/// Streams that are being captured into one graph.
struct Capture {
  SimtGraph graph;
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const void* thread = nullptr;  ///< who began it
  bool invalid = false;
};

}  // namespace simt

struct SimtStream {
  bool blocking = true;  ///< waits for the legacy stream, and that one for it
  simt::OperationPtr tail;
  std::shared_ptr<simt::Capture> capture;
  std::vector<size_t> capture_tails;
};

struct SimtEvent {
  simt::OperationPtr operation;
  std::shared_ptr<simt::Capture> capture;
  std::vector<size_t> capture_tails;
  bool timing = true;
};

namespace simt {

/// The emulated GPU: its memory, its streams, and what they have still to do. Operations run on the
/// host thread that waits for one of them, in any order that their needs allow.
class Machine {
 public:
  /// CUDA's runtime is one for a process, and so is this.
  static Machine& instance();

  /// Adds work at the end of `stream`, or to the graph that it is captured into.
  cudaError_t queue(SimtStream* stream, Work work);
  /// A marker that follows all that was queued on `stream`, legacy rules included.
  OperationPtr tail_of(SimtStream* stream);
  OperationPtr add(std::shared_ptr<const Work> work, const std::vector<OperationPtr>& needs);
  void set_tail(SimtStream* stream, OperationPtr operation);
  std::vector<OperationPtr> needs_of(SimtStream* stream);

  /// Runs operations until `operation` is done. Where that needs what other host threads have still
  /// to queue, lets them.
  void run_until(const OperationPtr& operation);
  /// Runs something, if anything can run, and at last what `operation` needs.
  void run_some(const OperationPtr& operation);
  void run_all();

  SimtStream* resolve(cudaStream_t stream) { return stream ? stream : &legacy_; }
  bool known(cudaStream_t stream) const { return !stream || streams_.count(stream) > 0; }
  cudaStream_t make_stream(bool blocking);
  void destroy_stream(cudaStream_t stream);

  /// A capture that forbids the calling thread what is not captured; null without one.
  Capture* forbidding_capture();
  void begin_capture(std::shared_ptr<Capture> capture);
  void end_capture(const Capture* capture);

  std::recursive_mutex mutex;
  DeviceMemory memory;
  PinnedMemory pinned;
  Counters counted{};
  Random random{1};
  bool executing = false;
  const Work* current = nullptr;

  size_t pending() const { return pending_; }
  void drop_all();

 private:
  Machine();
  template <class Choose>
  void drain(Choose more);
  void execute(const OperationPtr& operation);
  OperationPtr pick(uint64_t mark);
  void wait_for_others();
  void mark_needs(const OperationPtr& operation, uint64_t mark);

  SimtStream legacy_;
  std::set<SimtStream*> streams_;
  std::vector<OperationPtr> ready_;
  size_t pending_ = 0;
  uint64_t marks_ = 0;
  std::vector<std::shared_ptr<Capture>> captures_;
};

/// Device memory is open to the host thread while one lives.
class OpenMemory {
 public:
  explicit OpenMemory(DeviceMemory& memory) : memory_(memory) { memory_.open(); }
  ~OpenMemory() { memory_.shut(); }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;

 private:
  DeviceMemory& memory_;
};

/// Remembers `error` for cudaGetLastError and returns it.
cudaError_t answer(cudaError_t error);
/// cudaSuccess, or the error of a call that an active capture forbids, which then is invalid.
cudaError_t refuse_in_capture(Machine& machine);
/// `body(machine)` with the machine held; a Failure is reported, and so is a call from host code
/// that a stream runs.
template <class F>
auto guarded(const char* name, F body) {
  Machine& machine = Machine::instance();
  std::unique_lock lock(machine.mutex);
  if (machine.executing) {
    report(std::string("host code queued on a stream calls ") + name + ", which CUDA forbids");
  }
  try {
    return body(machine);
  } catch (const Failure& failure) {
    report(failure.what());
  }
}
/// Names what a wrong access of the host or of a kernel met.
void install_fault_handler();

}  // namespace simt
