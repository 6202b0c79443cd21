#include <cstdlib>
#include <cstring>
#include <fstream>

#include <sys/mman.h>

#include "dlrm/core/shown_bytes.h"
#include "dlrm/device/device.h"

#include "ledger.h"

namespace dlrm {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class CpuEvent final : public Event {
 public:
  void synchronize() override {}
  bool reached() override { return true; }
};

class CpuStream final : public Stream {
 public:
  void synchronize() override {}
  void record(Event&) override {}
  void wait(Event&) override {}
};

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

class CpuDevice final : public Device {
 public:
  CpuDevice() : Device(DeviceCapabilities{}) {}

  void* allocate(size_t bytes, const char* what) override {
    void* pointer = bytes >= kHugePage ? map(bytes) : std::aligned_alloc(64, rounded(bytes));
    if (!pointer) {
      throw run_error("out of memory: {} for {}; held: {}", shown_bytes(bytes), what,
                      ledger_.holders());
    }
    if (bytes < kHugePage) std::memset(pointer, 0, bytes);
    ledger_.add(pointer, bytes, what);
    return pointer;
  }

  void deallocate(void* pointer, size_t bytes) noexcept override {
    ledger_.remove(pointer);
    if (bytes >= kHugePage) {
      ::munmap(pointer, bytes);
    } else {
      std::free(pointer);
    }
  }

  void* allocate_host(size_t bytes, const char* what) override { return allocate(bytes, what); }
  void deallocate_host(void* pointer, size_t bytes) noexcept override {
    deallocate(pointer, bytes);
  }
  void copy(void* to, const void* from, size_t bytes, Stream&) override {
    if (bytes > 0 && to != from) std::memmove(to, from, bytes);
  }

  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  std::string describe() const override { return fmt::format("cpu: {}", processor_name()); }
  size_t bytes_in_use() const override { return ledger_.in_use(); }
  size_t peak_bytes() const override { return ledger_.peak(); }

 private:
  static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

  static void* map(size_t bytes) {
    void* pointer =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pointer == MAP_FAILED) return nullptr;
    ::madvise(pointer, bytes,
              MADV_HUGEPAGE);  // reads of random rows then cause far fewer TLB misses
    return pointer;
  }

  Ledger ledger_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace dlrm
