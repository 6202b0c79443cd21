#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <type_traits>
#include <vector>

#include "device_memory.h"
#include "failure.h"
#include "operation.h"
#include "order.h"
#include "pinned_memory.h"
#include "recorder.h"
#include "simt/graph_api.h"

/// A node of a graph: its work, and the nodes that precede it.
struct SimtGraphNode {
  std::shared_ptr<const simt::Work> work;
  std::vector<size_t> needs;
};

struct SimtGraph {
  std::vector<SimtGraphNode> nodes;
};

struct SimtGraphExec {
  SimtGraph graph;
  simt::OperationPtr last;  ///< the end of the previous launch
};

namespace simt {

/// Streams that are being captured into one graph.
struct Capture {
  SimtGraph graph;
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const void* thread = nullptr;  ///< the thread that began it
  bool invalid = false;
};

}  // namespace simt

struct SimtStream {
  bool blocking = true;  ///< the stream and the legacy stream wait for each other
  int priority = 0;      ///< only recorded
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

/// The emulated GPU: its memory, its streams and their queued work. A host thread that waits for an
/// operation runs operations, in any order that respects their dependencies.
class Machine {
 public:
  /// One per process, like CUDA's runtime.
  static Machine& instance();

  /// Adds work at the end of `stream`, or to the graph if the stream is captured.
  cudaError_t queue(SimtStream* stream, Work work);
  /// A marker that follows all work queued on `stream`. Respects the legacy stream's rules.
  OperationPtr tail_of(SimtStream* stream);
  /// `stream` is only for the recorder.
  OperationPtr add(std::shared_ptr<const Work> work, const std::vector<OperationPtr>& needs,
                   const SimtStream* stream = nullptr);
  void set_tail(SimtStream* stream, OperationPtr operation);
  std::vector<OperationPtr> needs_of(SimtStream* stream);

  /// Runs operations until `operation` is done. If it depends on work that other host threads have
  /// not queued yet, lets them run.
  void run_until(const OperationPtr& operation);
  /// Runs a few operations that can run, or none. Prefers what `operation` needs.
  void run_some(const OperationPtr& operation);
  void run_all();
  /// For a call that waits for the whole device on a GPU. Here it runs what can run, since other
  /// ranks may share the device, and counts if work is left.
  void wait_for_device();

  SimtStream* resolve(cudaStream_t stream) { return stream ? stream : &legacy_; }
  bool known(cudaStream_t stream) const { return !stream || streams_.count(stream) > 0; }
  cudaStream_t make_stream(bool blocking, int priority);
  void destroy_stream(cudaStream_t stream);

  /// The capture that forbids the calling thread uncaptured calls. Null if there is none.
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
  Recorder* recorder = nullptr;  ///< set during a recording

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

/// Opens device memory to the host thread during its lifetime.
class OpenMemory {
 public:
  explicit OpenMemory(DeviceMemory& memory) : memory_(memory) { memory_.open(); }
  ~OpenMemory() { memory_.shut(); }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;

 private:
  DeviceMemory& memory_;
};

/// Stores `error` for cudaGetLastError and returns it.
cudaError_t answer(cudaError_t error);
/// A call of CUDA's API, with its flags if it has any.
struct CallName {
  CallName(const char* name) : name(name) {}
  CallName(const char* name, uint64_t flags) : name(name), flags(flags), has_flags(true) {}
  const char* name;
  uint64_t flags = 0;
  bool has_flags = false;
};
/// Stores and returns the error that an OnCalls gives the call, or returns cudaSuccess.
cudaError_t chosen(const CallName& call);
/// Returns cudaSuccess, or an error if an active capture forbids the call. Then the capture becomes
/// invalid.
cudaError_t refuse_in_capture(Machine& machine);
/// Calls `body(machine)` while holding the machine's mutex. Reports a Failure. Also reports CUDA
/// calls from host code that a stream runs.
template <class F>
auto guarded(const CallName& call, F body) {
  Machine& machine = Machine::instance();
  std::unique_lock lock(machine.mutex);
  if (machine.executing) {
    report(std::string("host code queued on a stream calls ") + call.name + ", which CUDA forbids");
  }
  if constexpr (std::is_same_v<decltype(body(machine)), cudaError_t>) {
    const cudaError_t refused = chosen(call);
    if (refused != cudaSuccess) return refused;
  }
  try {
    return body(machine);
  } catch (const Failure& failure) {
    report(failure.what());
  }
}
/// Reports the memory that an invalid access of the host or of a kernel touched.
void install_fault_handler();

}  // namespace simt
