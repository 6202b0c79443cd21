#include "arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <random>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "memory_file.h"

namespace dlrm {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kLargestStep = size_t{64} << 20;  // small blocks' segments add half, up to this

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

uint64_t random_cookie() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

/// Of the namespace that processes of this one have their numbers in.
uint64_t process_names() {
  struct stat names {};
  return ::stat("/proc/self/ns/pid", &names) == 0 ? names.st_ino : 0;
}

}  // namespace

Arena::Arena() : segments_(ArenaDirectory::kSegments) {
  const int first = add_segment(kFirst);
  if (first != 0) throw run_error("shared memory: {}", std::strerror(errno));
  small_.push_back(first);
  segments_[0].free.emplace(0, kFirst);
  directory_ = new (take_small(rounded(sizeof(ArenaDirectory), kLine))) ArenaDirectory;
  directory_->cookie = random_cookie();
  show(first);
}

Arena::~Arena() {
  // A slower rank may still read what it has mapped.
  for (const Segment& segment : segments_) {
    if (segment.memory.data) close_memory(segment.memory);
  }
}

Arena::Address Arena::address() const {
  return {::getpid(), process_names(), directory_->cookie, segments_[0].memory.inode,
          segments_[0].memory.file};
}

int Arena::unused_number() {
  for (int i = 0; i < ArenaDirectory::kSegments; ++i) {
    const int number = (next_number_ + i) % ArenaDirectory::kSegments;
    if (segments_[static_cast<size_t>(number)].memory.data) continue;
    next_number_ = number + 1;  // numbers are used again as late as may be
    return number;
  }
  return -1;
}

/// Its number; -1 where the system has no more.
int Arena::add_segment(size_t bytes) {
  if (bytes >> Spot::kOffsetBits != 0 || bytes_.load() + bytes > limit_.load()) return -1;
  const int number = unused_number();
  if (number < 0) return -1;
  const MemoryFile memory = make_memory(bytes);
  if (!memory.data) return -1;
  Segment& segment = segments_[static_cast<size_t>(number)];
  segment.memory = memory;
  segment.generation = std::max(1u, (segment.generation + 1) % Spot::kGenerations);
  by_address_.emplace(memory.data, number);
  const size_t now = bytes_.fetch_add(bytes) + bytes;
  peak_bytes_.store(std::max(peak_bytes_.load(), now));
  if (directory_) show(number);
  return number;
}

/// Before anybody is told of a place there.
void Arena::show(int number) {
  const Segment& segment = segments_[static_cast<size_t>(number)];
  ArenaDirectory::Segment& shown = directory_->segments[number];
  shown.file.store(segment.memory.file);
  shown.inode.store(segment.memory.inode);
  shown.bytes.store(segment.memory.bytes);
  shown.generation.store(segment.generation);
}

void Arena::drop_segment(int number) {
  Segment& segment = segments_[static_cast<size_t>(number)];
  directory_->segments[number].file.store(-1);
  by_address_.erase(segment.memory.data);
  bytes_.fetch_sub(segment.memory.bytes);
  discard_memory(segment.memory);
  segment.memory = {};
}

void* Arena::take(size_t bytes) {
  bytes = rounded(std::max<size_t>(bytes, 1), kLine);
  const std::lock_guard lock(mutex_);
  if (bytes < kLarge) return take_small(bytes);
  const int number = add_segment(rounded(bytes, kPage));
  if (number < 0) return nullptr;
  return taken(number, segments_[static_cast<size_t>(number)].memory.data, bytes);
}

void* Arena::take_small(size_t bytes) {
  size_t total = 0;
  for (const int number : small_) {
    Segment& segment = segments_[static_cast<size_t>(number)];
    if (void* pointer = take_from(segment, bytes)) return taken(number, pointer, bytes);
    total += segment.memory.bytes;
  }
  const size_t step = std::clamp(rounded(total / 2, kPage), kFirst, kLargestStep);
  const int number = add_segment(std::max(rounded(bytes, kPage), step));
  if (number < 0) return nullptr;
  small_.push_back(number);
  Segment& segment = segments_[static_cast<size_t>(number)];
  segment.free.clear();
  segment.free.emplace(0, segment.memory.bytes);
  return taken(number, take_from(segment, bytes), bytes);
}

void* Arena::taken(int segment, void* pointer, size_t bytes) {
  taken_.emplace(pointer, std::pair(segment, bytes));
  return pointer;
}

void* Arena::take_from(Segment& segment, size_t bytes) {
  const auto found = std::find_if(segment.free.begin(), segment.free.end(),
                                  [&](const auto& block) { return block.second >= bytes; });
  if (found == segment.free.end()) return nullptr;
  const auto [offset, length] = *found;
  segment.free.erase(found);
  if (length > bytes) segment.free.emplace(offset + bytes, length - bytes);
  return segment.memory.data + offset;
}

bool Arena::give_back(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(pointer);
  if (found == taken_.end()) return false;
  const auto [number, bytes] = found->second;
  taken_.erase(found);
  if (bytes >= kLarge) {
    drop_segment(number);
    return true;
  }
  Segment& segment = segments_[static_cast<size_t>(number)];
  add_free(segment, static_cast<size_t>(static_cast<std::byte*>(pointer) - segment.memory.data),
           bytes);
  return true;
}

void Arena::add_free(Segment& segment, size_t offset, size_t bytes) {
  auto next = segment.free.lower_bound(offset);
  if (next != segment.free.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = segment.free.erase(next);
  }
  if (next != segment.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  segment.free.emplace(offset, bytes);
}

Spot Arena::find(const void* pointer, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* begin = static_cast<const std::byte*>(pointer);
  const auto after = by_address_.upper_bound(begin);
  if (after == by_address_.begin()) return {};
  const int number = std::prev(after)->second;
  const Segment& segment = segments_[static_cast<size_t>(number)];
  const auto offset = static_cast<size_t>(begin - segment.memory.data);
  if (offset > segment.memory.bytes || bytes > segment.memory.bytes - offset) return {};
  return {number, segment.generation, offset};
}

}  // namespace dlrm
