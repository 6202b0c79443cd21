#include "cuda_device.h"

namespace dlrm::cuda {

void HostWait::set_progress(std::function<void()> progress) {
  progress_ = std::move(progress);
  thread_ = std::this_thread::get_id();
}

void HostWait::stream(cudaStream_t stream) const {
  if (polls()) return poll([stream] { return cudaStreamQuery(stream); }, "cudaStreamQuery");
  DLRM_CUDA_CHECK(cudaStreamSynchronize(stream));
}

void HostWait::event(cudaEvent_t event) const {
  if (polls()) return poll([event] { return cudaEventQuery(event); }, "cudaEventQuery");
  DLRM_CUDA_CHECK(cudaEventSynchronize(event));
}

template <class Query>
void HostWait::poll(const Query& query, const char* call) const {
  cudaError_t status = cudaSuccess;
  while ((status = query()) == cudaErrorNotReady) {
    cudaGetLastError();
    progress_();
    std::this_thread::yield();
  }
  check(status, call);
}

void StreamList::add(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  streams_.insert(stream);
}

void StreamList::remove(cudaStream_t stream) noexcept {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

bool StreamList::order_before_memory() noexcept {
  const std::lock_guard lock(mutex_);
  for (cudaStream_t stream : streams_) {
    if (capturing(stream)) return false;
  }
  for (cudaStream_t stream : streams_) {
    cudaEvent_t reached = nullptr;
    if (cudaEventCreateWithFlags(&reached, cudaEventDisableTiming) != cudaSuccess) return false;
    cudaEventRecord(reached, stream);
    cudaStreamWaitEvent(memory_, reached, 0);
    cudaEventDestroy(reached);
  }
  return true;
}

CudaEvent::CudaEvent(std::shared_ptr<StreamList> list, bool timed) : list_(std::move(list)) {
  // A host that waits sleeps.
  const unsigned timing = timed ? cudaEventDefault : cudaEventDisableTiming;
  DLRM_CUDA_CHECK(cudaEventCreateWithFlags(&event_, timing | cudaEventBlockingSync));
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::synchronize() { list_->host_wait().event(event_); }

bool CudaEvent::reached() {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

double CudaEvent::milliseconds_since(Event& earlier) {
  float milliseconds = 0;
  DLRM_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, cuda::native(earlier), event_));
  return milliseconds;
}

CudaStream::CudaStream(std::shared_ptr<StreamList> list, bool urgent) : list_(std::move(list)) {
  int least = 0, greatest = 0;
  DLRM_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  DLRM_CUDA_CHECK(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least));
  list_->add(stream_);
}

CudaStream::~CudaStream() {
  try {
    CudaStream::synchronize();
  } catch (...) {
    // The call that failed throws it again. Streams no longer wait for other ranks.
  }
  list_->remove(stream_);
  // Memory freed from now on is no longer ordered behind this stream.
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void CudaStream::synchronize() { list_->host_wait().stream(stream_); }

void CudaStream::record(Event& event) {
  DLRM_CUDA_CHECK(cudaEventRecord(cuda::native(event), stream_));
}

void CudaStream::wait(Event& event) {
  DLRM_CUDA_CHECK(cudaStreamWaitEvent(stream_, cuda::native(event), 0));
}

bool CudaStream::begin_capture() {
  list_->order_before_memory();  // for allocations during the capture
  DLRM_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  return true;
}

std::unique_ptr<Graph> CudaStream::end_capture() {
  cudaGraph_t graph = nullptr;
  DLRM_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
  return std::make_unique<CudaGraph>(graph);
}

void CudaStream::abandon_capture() noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream_, &graph);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();  // the call that made the capture invalid has reported the error
}

CudaGraph::CudaGraph(cudaGraph_t graph) {
  // Otherwise all nodes would have the priority of the stream on which the graph is launched.
  const cudaError_t status =
      cudaGraphInstantiate(&runnable_, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
}

CudaGraph::~CudaGraph() { cudaGraphExecDestroy(runnable_); }

void CudaGraph::launch(Stream& stream) {
  DLRM_CUDA_CHECK(cudaGraphLaunch(runnable_, cuda::native(stream)));
}

}  // namespace dlrm::cuda
