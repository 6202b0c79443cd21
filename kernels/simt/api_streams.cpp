// Streams and events.
#include "machine.h"

using simt::answer;
using simt::chosen;
using simt::guarded;
using simt::Machine;
using simt::OperationPtr;
using simt::refuse_in_capture;
using simt::Work;

namespace {

/// Runs the operations that `operation` needs, for a call that blocks the host.
cudaError_t wait_for(Machine& machine, const OperationPtr& operation) {
  machine.run_until(operation);
  if (machine.recorder) machine.recorder->waited(operation, true);
  return answer(cudaSuccess);
}

cudaError_t progress_of(Machine& machine, const OperationPtr& operation) {
  machine.run_some(operation);
  if (operation && !operation->done) return answer(cudaErrorNotReady);
  if (machine.recorder) machine.recorder->waited(operation, false);
  return cudaSuccess;
}

/// A captured stream cannot be waited for. A capture may also forbid waiting for other streams.
cudaError_t refused_for(Machine& machine, SimtStream* stream) {
  if (stream && stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return refuse_in_capture(machine);
}

}  // namespace

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const uint64_t shown = flags + 10 * static_cast<uint64_t>(-priority);
  return guarded({"cudaStreamCreate", shown}, [&](Machine& machine) {
    *stream = machine.make_stream((flags & cudaStreamNonBlocking) == 0, priority);
    return answer(cudaSuccess);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const cudaError_t refused = chosen("cudaDeviceGetStreamPriorityRange");
  if (refused != cudaSuccess) return refused;
  *least = 0;
  *greatest = -5;
  return answer(cudaSuccess);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return guarded("cudaStreamDestroy", [&](Machine& machine) {
    if (!stream || !machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    machine.destroy_stream(stream);
    return answer(cudaSuccess);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded("cudaStreamSynchronize", [&](Machine& machine) {
    if (!machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    SimtStream* queue = machine.resolve(stream);
    const cudaError_t refused = refused_for(machine, queue);
    if (refused != cudaSuccess) return answer(refused);
    return wait_for(machine, machine.tail_of(queue));
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return guarded("cudaStreamQuery", [&](Machine& machine) {
    if (!machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    SimtStream* queue = machine.resolve(stream);
    const cudaError_t refused = refused_for(machine, queue);
    if (refused != cudaSuccess) return answer(refused);
    return progress_of(machine, machine.tail_of(queue));
  });
}

cudaError_t cudaDeviceSynchronize() {
  return guarded("cudaDeviceSynchronize", [&](Machine& machine) {
    const cudaError_t refused = refuse_in_capture(machine);
    if (refused != cudaSuccess) return answer(refused);
    machine.run_all();
    return answer(cudaSuccess);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const cudaError_t refused = chosen({"cudaEventCreate", flags});
  if (refused != cudaSuccess) return refused;
  *event = new SimtEvent;
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  return answer(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return guarded("cudaEventDestroy", [&](Machine&) {
    delete event;
    return answer(event ? cudaSuccess : cudaErrorInvalidResourceHandle);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return guarded("cudaEventRecord", [&](Machine& machine) {
    if (!event || !machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    SimtStream* queue = machine.resolve(stream);
    event->capture = queue->capture;
    event->capture_tails = queue->capture_tails;
    event->operation = nullptr;
    if (queue->capture) return answer(cudaSuccess);
    // A separate operation, so that its time is known.
    const cudaError_t status = machine.queue(queue, {});
    if (status == cudaSuccess) event->operation = queue->tail;
    return answer(status);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return guarded("cudaStreamWaitEvent", [&](Machine& machine) {
    if (!event || !machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    SimtStream* queue = machine.resolve(stream);
    if (event->capture) {
      if (!queue->capture) {
        if (event->capture->origin == nullptr) return answer(cudaErrorCapturedEvent);
        queue->capture = event->capture;  // the stream joins the capture
      }
      if (queue->capture != event->capture) return answer(cudaErrorStreamCaptureMerge);
      for (const size_t node : event->capture_tails) queue->capture_tails.push_back(node);
      return answer(cudaSuccess);
    }
    if (!event->operation) return answer(cudaSuccess);
    if (queue->capture) {
      queue->capture->invalid = true;
      return answer(cudaErrorStreamCaptureIsolation);
    }
    if (event->operation->done && !machine.recorder) return answer(cudaSuccess);
    auto needs = machine.needs_of(queue);
    needs.push_back(event->operation);
    machine.set_tail(queue, machine.add(std::make_shared<const Work>(), needs, queue));
    return answer(cudaSuccess);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return guarded("cudaEventQuery", [&](Machine& machine) {
    if (!event) return answer(cudaErrorInvalidResourceHandle);
    if (event->capture) return answer(cudaErrorCapturedEvent);
    const cudaError_t refused = refuse_in_capture(machine);
    return refused == cudaSuccess ? progress_of(machine, event->operation) : answer(refused);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return guarded("cudaEventSynchronize", [&](Machine& machine) {
    if (!event) return answer(cudaErrorInvalidResourceHandle);
    if (event->capture) {
      event->capture->invalid = true;
      return answer(cudaErrorCapturedEvent);
    }
    const cudaError_t refused = refuse_in_capture(machine);
    return refused == cudaSuccess ? wait_for(machine, event->operation) : answer(refused);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return guarded("cudaEventElapsedTime", [&](Machine&) {
    if (!start || !end || !start->timing || !end->timing || !start->operation || !end->operation) {
      return answer(cudaErrorInvalidResourceHandle);
    }
    if (!start->operation->done || !end->operation->done) return answer(cudaErrorNotReady);
    *milliseconds = static_cast<float>(end->operation->finished_ms - start->operation->finished_ms);
    return answer(cudaSuccess);
  });
}
