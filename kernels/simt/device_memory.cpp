#include "device_memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>
#include <sys/mman.h>

#include "sanitizer.h"

namespace simt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 256;
constexpr size_t kGap = 256;
constexpr unsigned char kCanary = 0xc5;
constexpr size_t kFilled = size_t{64} << 20;  // at most so much of an allocation is filled

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// There are eight slot sizes between powers of two, so that freed slots fit again.
size_t slot_size(size_t bytes) {
  const size_t least = rounded(bytes + kGap, kAlignment);
  return rounded(least, std::max(kAlignment, std::bit_floor(least) / 8));
}

}  // namespace

DeviceMemory::DeviceMemory() {
  void* base = ::mmap(nullptr, kReserved + kHugePage, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  base_ = top_ = rounded(reinterpret_cast<uintptr_t>(base), kHugePage);
  // Opening and shutting change each page's entry, so fewer pages are faster.
  ::madvise(reinterpret_cast<void*>(base_), kReserved, MADV_HUGEPAGE);
  const char* limit = std::getenv("DLRM_SIMT_MEMORY");
  total_ = limit ? std::strtoull(limit, nullptr, 10) : size_t{8} << 30;
}

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes > total_ || in_use_ + bytes > total_) return nullptr;
  const size_t slot = slot_size(bytes);
  uintptr_t start = 0;
  auto& same = free_[slot];
  if (!same.empty()) {
    start = same.back();
    same.pop_back();
  } else {
    if (top_ + slot > base_ + kReserved) return nullptr;
    start = top_;
    top_ += slot;
    if (open_) {
      open_ = false;
      open();
    }
  }
  auto* data = reinterpret_cast<unsigned char*>(start);
  unpoison(data, bytes);
  std::memset(data, 0xff, std::min(bytes, kFilled));
  if (kAddressSanitizer) {
    poison(data + bytes, slot - bytes);
  } else {
    std::memset(data + bytes, kCanary, kGap);
  }
  allocations_[start] = {bytes, slot, ++serial_};
  in_use_ += bytes;
  return data;
}

bool DeviceMemory::free(void* pointer) {
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == allocations_.end()) return false;
  const Allocation allocation = found->second;
  if (kAddressSanitizer) {
    poison(pointer, allocation.bytes);
  } else {
    std::memset(pointer, 0xff, std::min(allocation.bytes, kFilled));
  }
  if (allocation.slot >= kFilled) {
    const uintptr_t start = rounded(found->first, kHugePage);
    const uintptr_t end = (found->first + allocation.slot) / kHugePage * kHugePage;
    ::madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
  }
  in_use_ -= allocation.bytes;
  free_[allocation.slot].push_back(found->first);
  allocations_.erase(found);
  return true;
}

size_t DeviceMemory::bytes_from(const void* pointer, bool end_too) const {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin()) return 0;
  --next;
  const uintptr_t end = next->first + next->second.bytes;
  if (at >= end) return at == end && end_too ? 1 : 0;
  return end - at;
}

std::string DeviceMemory::describe(const void* pointer) const {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  auto next = allocations_.upper_bound(at);
  if (next != allocations_.begin()) {
    --next;
    if (at < next->first + next->second.slot) {
      return fmt::format("allocation {} of {} bytes at {:#x}, offset {}", next->second.serial,
                         next->second.bytes, next->first, at - next->first);
    }
  }
  return at < top_ ? "memory that was freed" : "memory that was never allocated";
}

std::string DeviceMemory::overrun_of(uintptr_t start, const Allocation& allocation) const {
  auto* end = reinterpret_cast<unsigned char*>(start) + allocation.bytes;
  // Each byte equals the one before it: the library's comparison is much faster than a loop.
  if (end[0] == kCanary && std::memcmp(end, end + 1, kGap - 1) == 0) return {};
  const auto at = std::find_if(end, end + kGap, [](unsigned char c) { return c != kCanary; }) - end;
  std::memset(end, kCanary, kGap);  // reported once
  return fmt::format("wrote out of bounds, {} bytes past the end of allocation {} of {} bytes", at,
                     allocation.serial, allocation.bytes);
}

std::string DeviceMemory::overrun() const {
  if (kAddressSanitizer) return {};
  for (const auto& [start, allocation] : allocations_) {
    std::string found = overrun_of(start, allocation);
    if (!found.empty()) return found;
  }
  return {};
}

void DeviceMemory::open() {
  if (open_) return;
  open_ = true;
  if (top_ > base_) {
    ::mprotect(reinterpret_cast<void*>(base_), rounded(top_ - base_, kHugePage),
               PROT_READ | PROT_WRITE);
  }
}

void DeviceMemory::shut() {
  if (!open_) return;
  open_ = false;
  if (top_ > base_) {
    ::mprotect(reinterpret_cast<void*>(base_), rounded(top_ - base_, kHugePage), PROT_NONE);
  }
}

}  // namespace simt
