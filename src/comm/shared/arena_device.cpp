#include "arena_device.h"

#include <atomic>
#include <cstring>
#include <utility>

namespace dlrm::comm {
namespace {

class ArenaDevice final : public Device {
 public:
  ArenaDevice(Device& inner, Arena& arena, std::function<void(size_t)> on_refusal,
              std::function<double()> room)
      : Device(inner.capabilities()),
        inner_(inner),
        arena_(arena),
        on_refusal_(std::move(on_refusal)),
        room_(std::move(room)) {}

  void* allocate(size_t bytes, const char* what) override {
    if (bytes >= Arena::kLargeBlock) require_room(bytes, what);
    void* pointer = arena_.allocate(bytes);
    if (!pointer) {
      on_refusal_(bytes);
      return inner_.allocate(bytes, what);
    }
    if (bytes < Arena::kLargeBlock) std::memset(pointer, 0, bytes);
    const size_t now = in_use_.fetch_add(bytes) + bytes;
    size_t peak = peak_.load();
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
    return pointer;
  }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    if (!arena_.deallocate(pointer)) return inner_.deallocate(pointer, bytes);
    in_use_.fetch_sub(bytes);
  }
  void* allocate_host(size_t bytes, const char* what) override { return allocate(bytes, what); }
  void deallocate_host(void* pointer, size_t bytes) noexcept override {
    deallocate(pointer, bytes);
  }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    inner_.copy(to, from, bytes, stream);
  }
  std::unique_ptr<Stream> make_stream() override { return inner_.make_stream(); }
  std::unique_ptr<Event> make_event() override { return inner_.make_event(); }
  std::string describe() const override { return inner_.describe(); }
  size_t bytes_in_use() const override { return in_use_.load() + inner_.bytes_in_use(); }
  size_t peak_bytes() const override { return peak_.load() + inner_.peak_bytes(); }

 private:
  void require_room(size_t bytes, const char* what) const {
    const double room = room_();
    if (static_cast<double>(bytes) <= room) return;
    throw run_error("out of memory: {:.2f} GiB for {}, and this job's memory limit leaves {:.2f}",
                    static_cast<double>(bytes) / 0x1p30, what, room / 0x1p30);
  }

  Device& inner_;
  Arena& arena_;
  const std::function<void(size_t)> on_refusal_;
  const std::function<double()> room_;
  std::atomic<size_t> in_use_{0};
  std::atomic<size_t> peak_{0};
};

}  // namespace

std::unique_ptr<Device> make_arena_device(Device& inner, Arena& arena,
                                          std::function<void(size_t)> on_refusal,
                                          std::function<double()> room) {
  return std::make_unique<ArenaDevice>(inner, arena, std::move(on_refusal), std::move(room));
}

}  // namespace dlrm::comm
