#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "dlrm/core/error.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// A point in a stream's work. Another stream, or the host, can wait for it.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks the host until the work before it is done.
  virtual void synchronize() = 0;
  /// Whether that work is done. Never blocks.
  virtual bool reached() = 0;
  /// Milliseconds between two events of make_timed_event(), both reached. 0 if the device has no
  /// clock.
  virtual double milliseconds_since(Event&) { return 0; }
};

class Stream;

/// Work recorded once. Every launch queues it again, with the same addresses and sizes.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// An ordered queue of work on a device.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Blocks the host until all queued work is done.
  virtual void synchronize() = 0;
  /// Records the end of the work queued so far in `event`, which the same device must have made.
  virtual void record(Event& event) = 0;
  /// Work queued from now on starts after `event`. Never blocks the host.
  virtual void wait(Event& event) = 0;
  /// Until end_capture(), queued work is recorded and not run. The caller must not wait, allocate,
  /// or use events of other streams. Returns false and records nothing unless can_capture().
  virtual bool begin_capture() { return false; }
  virtual std::unique_ptr<Graph> end_capture() { return nullptr; }
  /// Ends a failed capture, whatever its state. Nothing of it is kept.
  virtual void abandon_capture() noexcept {}
  /// Whether queued work is recorded now: after begin_capture(), or after a wait for an event of a
  /// stream that is captured. Do not call reached() for such events.
  virtual bool capturing() { return false; }
};

/// Waits for the stream before memory that its work uses is freed. Ignores errors of the device,
/// because the call that failed has reported them.
inline void settle(Stream& stream) noexcept {
  try {
    stream.synchronize();
  } catch (const Error&) {
    return;
  }
}

/// What a device can do. Code asks for the capability that it depends on, never for a kind of
/// device.
struct DeviceCapabilities {
  /// The host reads and writes memory of allocate() directly. Nothing is copied to or from it.
  bool host_visible_memory = true;
  /// Calls queue work and return before it is done, so that streams overlap. Otherwise an
  /// operation is done when its call returns.
  bool asynchronous = false;
  /// A stream's work can be captured as a Graph.
  bool can_capture = false;
  /// CUDA kernels run on it, and libraries such as NCCL can use it. Start-up reads this to choose
  /// operations and communicators. Reports read it too.
  bool runs_cuda = false;
  /// Elements that rows of activations and weights are padded to a multiple of.
  int64_t row_alignment = 1;
};

/// Memory and streams of one device. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceCapabilities& capabilities() const { return capabilities_; }
  bool host_visible_memory() const { return capabilities_.host_visible_memory; }
  bool asynchronous() const { return capabilities_.asynchronous; }
  bool can_capture() const { return capabilities_.can_capture; }
  bool runs_cuda() const { return capabilities_.runs_cuda; }
  int64_t row_alignment() const { return capabilities_.row_alignment; }
  /// Zeroed memory, aligned to 64 bytes at least. The host may access it only if
  /// host_visible_memory(). If there is too little memory, throws run_error naming `what` and the
  /// allocations that hold the rest.
  virtual void* allocate(size_t bytes, const char* what) = 0;
  virtual void deallocate(void* pointer, size_t bytes) noexcept = 0;
  /// Zeroed memory of the host that the device can read and write too. Pinned on a GPU.
  virtual void* allocate_host(size_t bytes, const char* what) = 0;
  virtual void deallocate_host(void* pointer, size_t bytes) noexcept = 0;
  /// Queues a copy on `stream`. Each side is memory of this device or of allocate_host(). The host
  /// may access either side again once the copy is done.
  virtual void copy(void* to, const void* from, size_t bytes, Stream& stream) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  /// A stream whose work is started before that of other streams, if both are ready.
  virtual std::unique_ptr<Stream> make_urgent_stream() { return make_stream(); }
  virtual std::unique_ptr<Event> make_event() = 0;
  /// An event that records the time at which it is reached.
  virtual std::unique_ptr<Event> make_timed_event() { return make_event(); }
  /// "cpu: <processor>, <n> threads" or "cuda: <gpu>".
  virtual std::string describe() const = 0;
  /// Bytes of device memory allocated now, and their maximum so far.
  virtual size_t bytes_in_use() const = 0;
  virtual size_t peak_bytes() const = 0;
  /// Bytes of device memory that are free now; 0 if unknown.
  virtual size_t available_bytes() const { return 0; }
  /// On a GPU, streams and events that the host waits for, also to allocate and to free memory, may
  /// wait for other ranks. While this thread waits for them, it calls `progress` again and again,
  /// which moves the messages that those ranks wait for. If `progress` throws, the wait and an
  /// allocation throw that. Other threads just wait. Empty: as before the first call. Not while
  /// other threads use the device.
  virtual void set_progress(std::function<void()>) {}
  /// How often device memory was freed. If that has changed, a Graph recorded before may refer to
  /// freed memory.
  virtual uint64_t frees() const { return 0; }

 protected:
  explicit Device(const DeviceCapabilities& capabilities) : capabilities_(capabilities) {}

 private:
  const DeviceCapabilities capabilities_;
};

/// This machine's memory. Large blocks use huge pages if the system allows.
std::shared_ptr<Device> make_cpu_device();

/// Whether this program was built for GPUs. The emulator counts as one GPU.
bool built_with_cuda();
/// Whether the one GPU is the emulator. It is for tests; `auto` never chooses it.
bool cuda_is_emulated();
/// Number of GPUs that the driver offers. 0 if the build has no CUDA.
int cuda_device_count();
/// GPU `index`. If there is none, throws usage_error that names the missing part.
std::shared_ptr<Device> make_cuda_device(int index);

/// The memory that a Buffer is allocated in.
enum class MemoryKind : uint8_t { kDevice, kHost };

/// Memory of a device or of its host, freed with its owner. Movable. Empty if default-constructed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, size_t bytes, const char* what, MemoryKind kind = MemoryKind::kDevice)
      : device_(&device), bytes_(bytes), kind_(kind) {
    if (bytes == 0) return;
    data_ = kind == MemoryKind::kDevice ? device.allocate(bytes, what)
                                        : device.allocate_host(bytes, what);
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (!data_) return;
    if (kind_ == MemoryKind::kDevice) {
      device_->deallocate(data_, bytes_);
    } else {
      device_->deallocate_host(data_, bytes_);
    }
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
  }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::kDevice;
};

/// A typed Buffer. The host may access elements of kDevice only if host_visible_memory().
template <class T, MemoryKind kKind = MemoryKind::kDevice>
class Array {
 public:
  Array() = default;
  Array(Device& device, size_t size, const char* what)
      : device_(&device),
        what_(what),
        buffer_(device, size * sizeof(T), what, kKind),
        size_(size) {}

  T* data() const { return static_cast<T*>(buffer_.data()); }
  size_t size() const { return size_; }
  View<T> view() const { return {data(), size_}; }
  View<T> first(size_t count) const { return {data(), count}; }
  T& operator[](size_t i) const { return data()[i]; }
  /// Holds at least `size` elements afterwards. Contents are lost if it grows. The first size is
  /// allocated exactly, as most arrays never grow. Later growth adds a quarter, so that a steady
  /// state allocates nothing.
  void reserve(size_t size) {
    if (size <= size_) return;
    const size_t grown = size_ == 0 ? size : size + size / 4;
    buffer_ = Buffer();
    buffer_ = Buffer(*device_, grown * sizeof(T), what_, kKind);
    size_ = grown;
  }

 private:
  Device* device_ = nullptr;
  const char* what_ = "";
  Buffer buffer_;
  size_t size_ = 0;
};

/// Memory that both the host and the device access.
template <class T>
using HostArray = Array<T, MemoryKind::kHost>;

}  // namespace dlrm
