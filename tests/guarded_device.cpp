#include "guarded_device.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

namespace dlrm {
namespace {

constexpr char kUnused = '\x5a';

class GuardedDevice final : public Device {
 public:
  explicit GuardedDevice(size_t alignment)
      : Device(DeviceCapabilities{}), alignment_(std::max<size_t>(alignment, 8)) {}

  void* allocate(size_t bytes, const char*) override {
    const size_t readable = pages_of(bytes);
    void* memory = ::mmap(nullptr, readable + page_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    char* guard = static_cast<char*>(memory) + readable;
    if (::mprotect(guard, page_, PROT_NONE) != 0) throw std::bad_alloc();
    char* begin = guard - taken(bytes);
    std::memset(begin + bytes, kUnused, taken(bytes) - bytes);
    const size_t now = in_use_ += bytes;
    size_t peak = peak_;
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
    return begin;
  }
  void deallocate(void* p, size_t bytes) noexcept override {
    char* begin = static_cast<char*>(p);
    char* guard = begin + taken(bytes);
    if (!std::all_of(begin + bytes, guard, [](char c) { return c == kUnused; })) {
      std::fputs("a write behind the end of device memory\n", stderr);
      std::abort();
    }
    ::munmap(guard - pages_of(bytes), pages_of(bytes) + page_);
    in_use_ -= bytes;
  }
  void* allocate_host(size_t bytes, const char* what) override { return allocate(bytes, what); }
  void deallocate_host(void* p, size_t bytes) noexcept override { deallocate(p, bytes); }
  void copy(void* to, const void* from, size_t bytes, Stream&) override {
    if (bytes > 0 && to != from) std::memmove(to, from, bytes);
  }
  std::unique_ptr<Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<Event> make_event() override { return cpu_->make_event(); }
  std::string describe() const override { return cpu_->describe(); }
  size_t bytes_in_use() const override { return in_use_; }
  size_t peak_bytes() const override { return peak_; }

 private:
  size_t taken(size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  size_t pages_of(size_t bytes) const { return (taken(bytes) + page_ - 1) / page_ * page_; }

  const size_t alignment_;
  const size_t page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const std::shared_ptr<Device> cpu_ = make_cpu_device();
  std::atomic<size_t> in_use_ = 0, peak_ = 0;
};

}  // namespace

std::shared_ptr<Device> make_guarded_device(size_t alignment) {
  return std::make_shared<GuardedDevice>(alignment);
}

}  // namespace dlrm
