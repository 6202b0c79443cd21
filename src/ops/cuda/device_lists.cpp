#include "cuda/device_lists.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"
#include "dlrm/device/cuda/runtime.h"

namespace dlrm {
namespace {

constexpr size_t kMostEntries = 512;
constexpr size_t kSmallest = 256;

size_t room_for(size_t bytes) { return std::max(kSmallest, std::bit_ceil(bytes)); }

}  // namespace

DeviceLists::DeviceLists(Device& device, Stream& stream) : device_(device), stream_(stream) {}

const void* DeviceLists::place(const void* list, size_t bytes) {
  if (bytes == 0) return nullptr;
  const uint64_t hash = hash_bytes(list, bytes);
  const bool captured = cuda::capturing(cuda::native(stream_));
  auto entry = found(hash, list, bytes);
  if (entry == entries_.end()) {
    entry = captured ? new_entry(bytes) : with_room(bytes);
    entry->hash = hash;
    entry->bytes = bytes;
    std::memcpy(entry->content.data(), list, bytes);
    if (captured) {
      upload_at_once(*entry);
    } else {
      device_.copy(entry->memory.data(), entry->content.data(), bytes, stream_);
      stream_.record(*entry->uploaded);
    }
    by_hash_.emplace(hash, entry);
  }
  entry->stays |= captured;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->memory.data();
}

DeviceLists::Entries::iterator DeviceLists::found(uint64_t hash, const void* list, size_t bytes) {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const Entry& e = *at->second;
    if (e.bytes == bytes && std::memcmp(e.content.data(), list, bytes) == 0) return at->second;
  }
  return entries_.end();
}

/// Returns a new entry. If there are many, returns an entry of the same size that was not used
/// recently. On the stream, its new content follows all readers of the old one. Its pinned copy is
/// free once it was uploaded.
DeviceLists::Entries::iterator DeviceLists::with_room(size_t bytes) {
  const size_t room = room_for(bytes);
  if (entries_.size() >= kMostEntries) {
    auto at = entries_.end();
    for (size_t looked = 0; looked < kMostEntries / 2; ++looked) {
      --at;
      if (at->stays || at->memory.bytes() != room || !at->uploaded->reached()) continue;
      forget(at);
      return at;
    }
    // No entry has this size. Erases an entry of another size, so that their number is bounded.
    for (at = std::prev(entries_.end()); at != entries_.begin(); --at) {
      if (at->stays) continue;
      forget(at);
      entries_.erase(at);
      break;
    }
  }
  return new_entry(bytes);
}

DeviceLists::Entries::iterator DeviceLists::new_entry(size_t bytes) {
  const size_t room = room_for(bytes);
  entries_.push_front({0, 0, Buffer(device_, room, "descriptor lists"),
                       Buffer(device_, room, "descriptor lists", MemoryKind::kHost),
                       device_.make_event(), false});
  return entries_.begin();
}

/// Uploads outside the capture, on another stream. The list is then valid even if the graph is
/// never launched, and launches do not upload it again.
void DeviceLists::upload_at_once(Entry& entry) {
  if (!upload_stream_) upload_stream_ = device_.make_stream();
  device_.copy(entry.memory.data(), entry.content.data(), entry.bytes, *upload_stream_);
  upload_stream_->record(*entry.uploaded);
  upload_stream_->synchronize();
}

void DeviceLists::forget(Entries::iterator entry) {
  const auto [begin, end] = by_hash_.equal_range(entry->hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second != entry) continue;
    by_hash_.erase(at);
    return;
  }
}

}  // namespace dlrm
