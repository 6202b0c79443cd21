#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <cuda_runtime.h>

#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/device.h"

#include "ledger.h"

namespace dlrm::cuda {

/// The host's waits for a device. See Device::set_progress().
class HostWait {
 public:
  void set_progress(std::function<void()> progress);
  void stream(cudaStream_t stream) const;
  void event(cudaEvent_t event) const;

 private:
  bool polls() const { return progress_ && std::this_thread::get_id() == thread_; }
  template <class Query>
  void poll(const Query& query, const char* call) const;

  std::function<void()> progress_;
  std::thread::id thread_;
};

/// The streams of a device that are alive. Freed memory may still be in use on them.
class StreamList {
 public:
  /// `memory`: the stream of allocations and frees, which is not in the list.
  explicit StreamList(cudaStream_t memory) : memory_(memory) {}

  void add(cudaStream_t stream);
  void remove(cudaStream_t stream) noexcept;
  /// Makes the memory stream wait for all work that the streams hold now. Returns false and does
  /// nothing if one of them is being captured, because a wait would become part of the graph. What
  /// they held when the capture began was ordered then (CudaStream::begin_capture()).
  bool order_before_memory() noexcept;
  HostWait& host_wait() { return host_wait_; }

 private:
  const cudaStream_t memory_;
  HostWait host_wait_;
  std::mutex mutex_;
  std::unordered_set<cudaStream_t> streams_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<StreamList> list, bool timed);
  ~CudaEvent() override;
  void synchronize() override;
  bool reached() override;
  double milliseconds_since(Event& earlier) override;
  cudaEvent_t native() const { return event_; }

 private:
  std::shared_ptr<StreamList> list_;
  cudaEvent_t event_ = nullptr;
};

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraph_t graph);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch(Stream& stream) override;

 private:
  cudaGraphExec_t runnable_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<StreamList> list, bool urgent);
  ~CudaStream() override;
  void synchronize() override;
  void record(Event& event) override;
  void wait(Event& event) override;
  bool begin_capture() override;
  std::unique_ptr<Graph> end_capture() override;
  void abandon_capture() noexcept override;
  bool capturing() override { return cuda::capturing(stream_); }
  cudaStream_t native() const { return stream_; }

 private:
  std::shared_ptr<StreamList> list_;
  cudaStream_t stream_ = nullptr;
};

/// A GPU. Device memory is allocated from the driver's stream-ordered pool, which keeps freed
/// memory. Freed memory is used again only after all work that was queued when it was freed.
///
/// CUDA's calls for pinned memory wait for the whole device, and an allocation from the pool waits
/// for its zeroing, which may follow work of all streams. A host that waits inside CUDA moves no
/// messages. So the waits are made before the calls, by polling (set_progress()), also during a
/// capture: the work that is queued then runs later. Waits for streams and events poll, too.
class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  void* allocate(size_t bytes, const char* what) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  void* allocate_host(size_t bytes, const char* what) override;
  void deallocate_host(void* pointer, size_t bytes) noexcept override;
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Stream> make_urgent_stream() override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Event> make_timed_event() override;
  std::string describe() const override { return description_; }
  size_t bytes_in_use() const override { return ledger_.in_use(); }
  size_t peak_bytes() const override { return ledger_.peak(); }
  size_t available_bytes() const override;
  void set_progress(std::function<void()> progress) override;
  uint64_t frees() const override { return frees_.load(); }

  int index() const { return index_; }

 private:
  cudaError_t from_pool(void** pointer, size_t bytes);
  void free_waiting() noexcept;
  void free_host_waiting() noexcept;
  /// Waits for the memory stream.
  void wait();
  [[noreturn]] void out_of_memory(size_t bytes, const char* what) const;

  int index_;
  std::string description_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t memory_stream_ = nullptr;  // allocations, zeroing and frees, in order
  std::shared_ptr<StreamList> streams_;
  std::atomic<uint64_t> frees_{0};
  Ledger ledger_;
  Ledger host_ledger_;
  std::mutex mutex_;
  std::vector<void*> waiting_;  // freed during a capture; returned to the pool after it
  std::vector<void*> host_waiting_;
};

}  // namespace dlrm::cuda
