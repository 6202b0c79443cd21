#include "cuda_device.h"

#include <algorithm>
#include <cstring>

#include "dlrm/core/error.h"
#include "dlrm/core/shown_bytes.h"

namespace dlrm::cuda {
namespace {

std::string described(int index) {
#ifdef DLRM_SIMT
  (void)index;
  return "cuda: emulator";
#else
  cudaDeviceProp properties{};
  DLRM_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return fmt::format("cuda: {}, {} processors, {}", properties.name, properties.multiProcessorCount,
                     shown_bytes(properties.totalGlobalMem));
#endif
}

DeviceCapabilities gpu_capabilities() {
  DeviceCapabilities gpu;
  gpu.host_visible_memory = false;
  gpu.asynchronous = true;
  gpu.can_capture = true;
  gpu.runs_cuda = true;
  gpu.row_alignment = 8;  // tensor cores read 16 bytes at a time, in fp32 and in bf16
  return gpu;
}

/// The device's default pool. It keeps all freed memory for later allocations.
cudaMemPool_t keeping_pool(int index) {
  cudaMemPool_t pool = nullptr;
  DLRM_CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, index));
  uint64_t keep = UINT64_MAX;
  DLRM_CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  return pool;
}

/// Uses all threads, because tables of tier host take hundreds of GiB.
void zero(void* data, size_t bytes) {
  constexpr size_t kPart = size_t{64} << 20;
  const auto parts = static_cast<int64_t>((bytes + kPart - 1) / kPart);
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int64_t i = 0; i < parts; ++i) {
    const size_t at = static_cast<size_t>(i) * kPart;
    std::memset(static_cast<char*>(data) + at, 0, std::min(kPart, bytes - at));
  }
}

}  // namespace

CudaDevice::CudaDevice(int index) : Device(gpu_capabilities()), index_(index) {
  DLRM_CUDA_CHECK(cudaSetDevice(index));
  description_ = described(index);
  pool_ = keeping_pool(index);
  DLRM_CUDA_CHECK(cudaStreamCreateWithFlags(&memory_stream_, cudaStreamNonBlocking));
  streams_ = std::make_shared<StreamList>(memory_stream_);
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(index_);
  cudaDeviceSynchronize();
  free_waiting();
  free_host_waiting();
  cudaStreamSynchronize(memory_stream_);
  cudaStreamDestroy(memory_stream_);
  // Another device object of this process may still use the pool. Its memory stays.
  cudaMemPoolTrimTo(pool_, 0);
}

cudaError_t CudaDevice::from_pool(void** pointer, size_t bytes) {
  const cudaError_t status = cudaMallocAsync(pointer, bytes, memory_stream_);
  if (status != cudaErrorMemoryAllocation) return status;
  // The pool may keep freed memory in sizes that do not fit. Returns it to the driver and tries the
  // allocation once more.
  cudaGetLastError();
  wait();
  DLRM_CUDA_CHECK(cudaMemPoolTrimTo(pool_, 0));
  return cudaMallocAsync(pointer, bytes, memory_stream_);
}

void* CudaDevice::allocate(size_t bytes, const char* what) {
  DLRM_CUDA_CHECK(cudaSetDevice(index_));
  free_waiting();
  void* pointer = nullptr;
  const cudaError_t status = from_pool(&pointer, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    out_of_memory(bytes, what);
  }
  check(status, "cudaMallocAsync");
  try {
    DLRM_CUDA_CHECK(cudaMemsetAsync(pointer, 0, bytes, memory_stream_));
    wait();
  } catch (...) {
    cudaFreeAsync(pointer, memory_stream_);
    throw;
  }
  ledger_.add(pointer, bytes, what);
  return pointer;
}

void CudaDevice::set_progress(std::function<void()> progress) {
  streams_->host_wait().set_progress(std::move(progress));
}

void CudaDevice::wait() { streams_->host_wait().stream(memory_stream_); }

void CudaDevice::deallocate(void* pointer, size_t) noexcept {
  ledger_.remove(pointer);
  ++frees_;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(pointer);
  }
  free_waiting();
}

void CudaDevice::free_waiting() noexcept {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty() || !streams_->order_before_memory()) return;
  for (void* pointer : waiting_) cudaFreeAsync(pointer, memory_stream_);
  waiting_.clear();
}

size_t CudaDevice::available_bytes() const {
  DLRM_CUDA_CHECK(cudaSetDevice(index_));
  size_t free = 0, total = 0;
  DLRM_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  uint64_t reserved = 0, used = 0;  // memory that the pool keeps is free as well
  DLRM_CUDA_CHECK(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved));
  DLRM_CUDA_CHECK(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used));
  return free + static_cast<size_t>(reserved > used ? reserved - used : 0);
}

void CudaDevice::out_of_memory(size_t bytes, const char* what) const {
  size_t free = 0, total = 0;
  DLRM_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const size_t own = ledger_.in_use();
  const size_t others = total > free + own ? total - free - own : 0;
  throw run_error(
      "out of GPU memory: {} for {}, {} of {} free; held here: {}; by the driver and other "
      "programs: {}",
      shown_bytes(bytes), what, shown_bytes(free), shown_bytes(total), ledger_.holders(),
      shown_bytes(others));
}

void* CudaDevice::allocate_host(size_t bytes, const char* what) {
  DLRM_CUDA_CHECK(cudaSetDevice(index_));
  free_host_waiting();
  streams_->order_before_memory();
  wait();
  void* pointer = nullptr;
  const cudaError_t status =
      cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw run_error("out of pinned host memory: {} for {}; held here: {}", shown_bytes(bytes), what,
                    host_ledger_.holders());
  }
  check(status, "cudaHostAlloc");
  zero(pointer, bytes);
  host_ledger_.add(pointer, bytes, what);
  return pointer;
}

void CudaDevice::deallocate_host(void* pointer, size_t) noexcept {
  host_ledger_.remove(pointer);
  {
    const std::lock_guard lock(mutex_);
    host_waiting_.push_back(pointer);
  }
  free_host_waiting();
}

void CudaDevice::free_host_waiting() noexcept {
  std::vector<void*> freed;
  {
    const std::lock_guard lock(mutex_);
    if (host_waiting_.empty() || !streams_->order_before_memory()) return;
    freed.swap(host_waiting_);
  }
  try {
    wait();
  } catch (...) {
    // The call that failed throws it again. Streams no longer wait for other ranks.
  }
  for (void* pointer : freed) cudaFreeHost(pointer);
}

void CudaDevice::copy(void* to, const void* from, size_t bytes, Stream& stream) {
  if (bytes == 0 || to == from) return;
  DLRM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda::native(stream)));
}

std::unique_ptr<Stream> CudaDevice::make_stream() {
  DLRM_CUDA_CHECK(cudaSetDevice(index_));
  return std::make_unique<CudaStream>(streams_, /*urgent=*/false);
}

std::unique_ptr<Stream> CudaDevice::make_urgent_stream() {
  DLRM_CUDA_CHECK(cudaSetDevice(index_));
  return std::make_unique<CudaStream>(streams_, /*urgent=*/true);
}

std::unique_ptr<Event> CudaDevice::make_event() {
  DLRM_CUDA_CHECK(cudaSetDevice(index_));
  return std::make_unique<CudaEvent>(streams_, /*timed=*/false);
}

std::unique_ptr<Event> CudaDevice::make_timed_event() {
  DLRM_CUDA_CHECK(cudaSetDevice(index_));
  return std::make_unique<CudaEvent>(streams_, /*timed=*/true);
}

}  // namespace dlrm::cuda

namespace dlrm {

bool built_with_cuda() { return true; }

bool cuda_is_emulated() {
#ifdef DLRM_SIMT
  return true;
#else
  return false;
#endif
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

namespace {

std::string reason_of_none(cudaError_t status) {
  if (status == cudaErrorNoDevice) return "the driver offers none";
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver is missing, or too old for CUDA {}.{}",
                       CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  return cudaGetErrorString(status);
}

}  // namespace

std::shared_ptr<Device> make_cuda_device(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    throw usage_error("device cuda: no GPU here: {}; `--device cpu` runs without one",
                      reason_of_none(status));
  }
  if (index < 0 || index >= count) {
    throw usage_error("device cuda: GPU {} was asked for, the driver offers {}", index, count);
  }
  return std::make_shared<cuda::CudaDevice>(index);
}

}  // namespace dlrm
