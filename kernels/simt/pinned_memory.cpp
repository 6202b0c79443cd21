#include "pinned_memory.h"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "dlrm/core/hash.h"

#include "failure.h"

namespace simt {
namespace {

uint64_t hash_of(const Range& range) { return dlrm::hash_bytes(range.data, range.bytes); }

bool overlap(const Range& range, uintptr_t start, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(range.data);
  return range.bytes > 0 && at < start + bytes && start < at + range.bytes;
}

}  // namespace

void* PinnedMemory::allocate(size_t bytes) {
  if (bytes > size_t{1} << 46) return nullptr;
  void* data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!data) return nullptr;
  std::memset(data, 0xff, bytes);
  blocks_[reinterpret_cast<uintptr_t>(data)] = bytes;
  return data;
}

bool PinnedMemory::free(void* pointer) {
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end()) return false;
  blocks_.erase(found);
  std::free(pointer);
  return true;
}

bool PinnedMemory::contains(const void* pointer, bool end_too) const {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return false;
  --next;
  const uintptr_t end = next->first + next->second;
  return at < end || (end_too && at == end);
}

void PinnedMemory::watch(const OperationPtr& operation) {
  const Work& work = *operation->work;
  if (work.host_source.bytes == 0 && work.host_target.bytes == 0) return;
  watched_.push_back({operation, hash_of(work.host_source)});
}

void PinnedMemory::check() const {
  for (const Watched& copy : watched_) {
    const Range& source = copy.operation->work->host_source;
    if (copy.operation->done || hash_of(source) == copy.sum) continue;
    throw Failure(fmt::format(
        "pinned buffer reused too early: the host changed some of the {} bytes at {} that a queued "
        "copy ({}) has still to read",
        source.bytes, source.data, copy.operation->work->name));
  }
}

void PinnedMemory::look_again() {
  std::erase_if(watched_, [](const Watched& copy) { return copy.operation->done; });
  for (Watched& copy : watched_) copy.sum = hash_of(copy.operation->work->host_source);
}

void PinnedMemory::check_unused(const void* pointer) const {
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end()) return;
  for (const Watched& copy : watched_) {
    const Work& work = *copy.operation->work;
    if (copy.operation->done) continue;
    if (overlap(work.host_source, found->first, found->second) ||
        overlap(work.host_target, found->first, found->second)) {
      throw Failure(fmt::format(
          "pinned buffer freed too early: {} bytes at {}, which a queued copy ({}) still needs",
          found->second, pointer, work.name));
    }
  }
}

}  // namespace simt
