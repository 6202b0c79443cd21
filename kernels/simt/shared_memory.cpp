#include "shared_memory.h"

#include <cstring>
#include <new>

#include <fmt/format.h>
#include <sys/mman.h>

#include "sanitizer.h"

namespace simt {
namespace {

constexpr size_t kGap = 32;
constexpr size_t kReserved = size_t{1} << 20;
constexpr unsigned char kCanary = 0xc5;

}  // namespace

SharedMemory::SharedMemory() {
  void* base = ::mmap(nullptr, kReserved, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<unsigned char*>(base);
  poison(base_, kReserved);
}

SharedMemory::~SharedMemory() {
  unpoison(base_, kReserved);
  ::munmap(base_, kReserved);
}

void SharedMemory::start_block(size_t dynamic_bytes) {
  poison(base_, used_);
  arrays_.clear();
  used_ = static_bytes_ = 0;
  dynamic_bytes_ = dynamic_bytes;
  if (dynamic_bytes > 0) end_array(dynamic_bytes);
}

void* SharedMemory::allocate(size_t bytes) {
  static_bytes_ += bytes;
  if (static_bytes_ > kStaticLimit || static_bytes_ + dynamic_bytes_ > kBlockLimit) return nullptr;
  unsigned char* data = base_ + used_;
  end_array(bytes);
  return data;
}

void SharedMemory::end_array(size_t bytes) {
  unsigned char* data = base_ + used_;
  const size_t gap = (bytes + 15) / 16 * 16 - bytes + kGap;
  unpoison(data, bytes);
  std::memset(data, 0xff, bytes);
  if (kAddressSanitizer) {
    poison(data + bytes, gap);
  } else {
    std::memset(data + bytes, kCanary, gap);
  }
  arrays_.push_back({used_, bytes, gap});
  used_ += bytes + gap;
}

std::string SharedMemory::overrun() const {
  if (kAddressSanitizer) return {};
  for (const Array& array : arrays_) {
    const unsigned char* end = base_ + array.start + array.bytes;
    for (size_t i = 0; i < array.gap; ++i) {
      if (end[i] != kCanary) {
        return fmt::format("wrote {} bytes past the end of a shared array of {} bytes", i,
                           array.bytes);
      }
    }
  }
  return {};
}

}  // namespace simt
