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
  GuardedDevice(size_t alignment, std::shared_ptr<Device> host)
      : Device(DeviceCapabilities{}),
        alignment_(std::max<size_t>(alignment, 8)),
        host_(std::move(host)) {}

  void* allocate(size_t bytes, const char* what) override {
    const size_t readable = pages_of(bytes);
    char* const all = static_cast<char*>(host_->allocate_host(readable + 3 * page_, what));
    // The address of all is kept in the page before the readable ones.
    const auto first = (reinterpret_cast<uintptr_t>(all) + 2 * page_ - 1) / page_ * page_;
    char* const guard = reinterpret_cast<char*>(first) + readable;
    *all_of(guard - readable) = all;
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
    if (::mprotect(guard, page_, PROT_READ | PROT_WRITE) != 0) std::abort();
    host_->deallocate_host(*all_of(guard - pages_of(bytes)), pages_of(bytes) + 3 * page_);
    in_use_ -= bytes;
  }
  void* allocate_host(size_t bytes, const char* what) override { return allocate(bytes, what); }
  void deallocate_host(void* p, size_t bytes) noexcept override { deallocate(p, bytes); }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    stream.synchronize();
    if (bytes > 0 && to != from) std::memmove(to, from, bytes);
  }
  std::unique_ptr<Stream> make_stream() override { return host_->make_stream(); }
  std::unique_ptr<Event> make_event() override { return host_->make_event(); }
  std::string describe() const override { return host_->describe(); }
  size_t bytes_in_use() const override { return in_use_; }
  size_t peak_bytes() const override { return peak_; }

 private:
  static char** all_of(char* readable) { return reinterpret_cast<char**>(readable) - 1; }
  size_t taken(size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  size_t pages_of(size_t bytes) const { return (taken(bytes) + page_ - 1) / page_ * page_; }

  const size_t alignment_;
  const size_t page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const std::shared_ptr<Device> host_;
  std::atomic<size_t> in_use_ = 0, peak_ = 0;
};

}  // namespace

std::shared_ptr<Device> make_guarded_device(size_t alignment, std::shared_ptr<Device> host) {
  return std::make_shared<GuardedDevice>(alignment, std::move(host));
}

}  // namespace dlrm
