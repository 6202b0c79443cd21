// Stream capture and graphs.
#include <algorithm>
#include <utility>

#include "machine.h"

using simt::answer;
using simt::Capture;
using simt::chosen;
using simt::guarded;
using simt::Machine;
using simt::OperationPtr;
using simt::Work;

namespace {

/// True if `tails` depend on all other nodes. Then a launch ends when they end.
bool joined(const SimtGraph& graph, const std::vector<size_t>& tails) {
  std::vector<char> reached(graph.nodes.size(), 0);
  std::vector<size_t> todo = tails;
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    if (reached[node]) continue;
    reached[node] = 1;
    for (const size_t need : graph.nodes[node].needs) todo.push_back(need);
  }
  return std::find(reached.begin(), reached.end(), 0) == reached.end();
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return guarded({"cudaStreamBeginCapture", static_cast<uint64_t>(mode)}, [&](Machine& machine) {
    if (!stream) return answer(cudaErrorStreamCaptureUnsupported);
    if (!machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (stream->capture) return answer(cudaErrorInvalidValue);
    auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->mode = mode;
    stream->capture = capture;
    stream->capture_tails.clear();
    machine.begin_capture(std::move(capture));
    return answer(cudaSuccess);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return guarded("cudaStreamEndCapture", [&](Machine& machine) {
    *graph = nullptr;
    if (!stream || !machine.known(stream) || !stream->capture) {
      return answer(cudaErrorInvalidValue);
    }
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture->origin != stream) return answer(cudaErrorStreamCaptureUnmatched);
    const std::vector<size_t> tails = stream->capture_tails;
    machine.end_capture(capture.get());
    capture->origin = nullptr;
    const SimtGraph captured = std::exchange(capture->graph, {});  // events may keep the capture
    if (capture->invalid) return answer(cudaErrorStreamCaptureInvalidated);
    if (!joined(captured, tails)) return answer(cudaErrorStreamCaptureUnjoined);
    *graph = new SimtGraph(captured);
    return answer(cudaSuccess);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return guarded("cudaStreamIsCapturing", [&](Machine& machine) {
    if (!machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    const auto& capture = machine.resolve(stream)->capture;
    *status = !capture           ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    return answer(cudaSuccess);
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  const cudaError_t refused = chosen({"cudaGraphInstantiate", flags});
  if (refused != cudaSuccess) return refused;
  if (!graph) return answer(cudaErrorInvalidValue);
  *exec = new SimtGraphExec{*graph, nullptr};
  return answer(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return guarded("cudaGraphLaunch", [&](Machine& machine) {
    if (!exec) return answer(cudaErrorInvalidValue);
    if (!machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    SimtStream* queue = machine.resolve(stream);
    if (queue->capture) return answer(cudaErrorNotSupported);
    std::vector<OperationPtr> before = machine.needs_of(queue);
    before.push_back(exec->last);
    const OperationPtr start = machine.add(std::make_shared<const Work>(), before);
    std::vector<OperationPtr> operations{};
    for (const SimtGraphNode& node : exec->graph.nodes) {
      std::vector<OperationPtr> needs{start};
      for (const size_t need : node.needs) needs.push_back(operations[need]);
      operations.push_back(machine.add(node.work, needs));
    }
    operations.push_back(start);
    exec->last = machine.add(std::make_shared<const Work>(), operations);
    machine.set_tail(queue, exec->last);
    return answer(cudaSuccess);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  static_cast<void>(chosen("cudaGraphDestroy"));
  delete graph;
  return answer(graph ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return guarded("cudaGraphExecDestroy", [&](Machine&) {
    delete exec;
    return answer(exec ? cudaSuccess : cudaErrorInvalidValue);
  });
}
