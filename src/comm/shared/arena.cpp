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

namespace dlrm::comm {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kMaxGrowth = size_t{64}
                              << 20;  // of the segments for small blocks, which grow by half

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

uint64_t random_cookie() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

/// Identifies the namespace of this process's id.
uint64_t pid_namespace() {
  struct stat facts {};
  return ::stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

}  // namespace

Arena::Arena() : segments_(SegmentTable::kSegments) {
  const int first = add_segment(kFirstSegment);
  if (first != 0) throw run_error("shared memory: {}", std::strerror(errno));
  small_.push_back(first);
  segments_[0].free.emplace(0, kFirstSegment);
  table_ = new (allocate_small(rounded(sizeof(SegmentTable), kLine))) SegmentTable;
  table_->cookie = random_cookie();
  publish(first);
}

Arena::~Arena() {
  // Slower ranks keep their mappings.
  for (const Segment& segment : segments_) {
    if (segment.memory.data) close_memory_file(segment.memory);
  }
}

ArenaHandle Arena::handle() const {
  return {::getpid(), pid_namespace(), table_->cookie, segments_[0].memory.inode,
          segments_[0].memory.file};
}

int Arena::unused_number() {
  for (int i = 0; i < SegmentTable::kSegments; ++i) {
    const int number = (next_number_ + i) % SegmentTable::kSegments;
    if (segments_[static_cast<size_t>(number)].memory.data) continue;
    next_number_ = number + 1;  // numbers are reused as late as possible
    return number;
  }
  return -1;
}

/// Returns its number; -1 if the system has no more memory.
int Arena::add_segment(size_t bytes) {
  if (bytes >> ArenaAddress::kOffsetBits != 0 || bytes_.load() + bytes > limit_.load()) return -1;
  const int number = unused_number();
  if (number < 0) return -1;
  const MemoryFile memory = create_memory_file(bytes);
  if (!memory.data) return -1;
  Segment& segment = segments_[static_cast<size_t>(number)];
  segment.memory = memory;
  segment.generation = std::max(1u, (segment.generation + 1) % ArenaAddress::kGenerations);
  by_address_.emplace(memory.data, number);
  const size_t now = bytes_.fetch_add(bytes) + bytes;
  peak_bytes_.store(std::max(peak_bytes_.load(), now));
  if (table_) publish(number);
  return number;
}

/// Precedes any use of the segment's addresses by peers.
void Arena::publish(int number) {
  const Segment& segment = segments_[static_cast<size_t>(number)];
  SegmentTable::Segment& entry = table_->segments[number];
  entry.file.store(segment.memory.file);
  entry.inode.store(segment.memory.inode);
  entry.bytes.store(segment.memory.bytes);
  entry.generation.store(segment.generation);
}

void Arena::drop_segment(int number) {
  Segment& segment = segments_[static_cast<size_t>(number)];
  table_->segments[number].file.store(-1);
  by_address_.erase(segment.memory.data);
  bytes_.fetch_sub(segment.memory.bytes);
  discard_memory_file(segment.memory);
  segment.memory = {};
}

void* Arena::allocate(size_t bytes) {
  bytes = rounded(std::max<size_t>(bytes, 1), kLine);
  const std::lock_guard lock(mutex_);
  if (bytes < kLargeBlock) return allocate_small(bytes);
  const int number = add_segment(rounded(bytes, kPage));
  if (number < 0) return nullptr;
  return register_block(number, segments_[static_cast<size_t>(number)].memory.data, bytes);
}

void* Arena::allocate_small(size_t bytes) {
  size_t total = 0;
  for (const int number : small_) {
    Segment& segment = segments_[static_cast<size_t>(number)];
    if (void* pointer = allocate_in(segment, bytes)) return register_block(number, pointer, bytes);
    total += segment.memory.bytes;
  }
  const size_t step = std::clamp(rounded(total / 2, kPage), kFirstSegment, kMaxGrowth);
  const int number = add_segment(std::max(rounded(bytes, kPage), step));
  if (number < 0) return nullptr;
  small_.push_back(number);
  Segment& segment = segments_[static_cast<size_t>(number)];
  segment.free.emplace(0, segment.memory.bytes);
  return register_block(number, allocate_in(segment, bytes), bytes);
}

void* Arena::register_block(int segment, void* pointer, size_t bytes) {
  blocks_.emplace(pointer, std::pair(segment, bytes));
  return pointer;
}

void* Arena::allocate_in(Segment& segment, size_t bytes) {
  const auto found = std::find_if(segment.free.begin(), segment.free.end(),
                                  [&](const auto& block) { return block.second >= bytes; });
  if (found == segment.free.end()) return nullptr;
  const auto [offset, length] = *found;
  segment.free.erase(found);
  if (length > bytes) segment.free.emplace(offset + bytes, length - bytes);
  return segment.memory.data + offset;
}

bool Arena::deallocate(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(pointer);
  if (found == blocks_.end()) return false;
  const auto [number, bytes] = found->second;
  blocks_.erase(found);
  if (bytes >= kLargeBlock) {
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

ArenaAddress Arena::address_of(const void* pointer, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* begin = static_cast<const std::byte*>(pointer);
  const auto after = by_address_.upper_bound(begin);
  if (after == by_address_.begin()) return {};
  const int number = std::prev(after)->second;
  const Segment& segment = segments_[static_cast<size_t>(number)];
  const auto offset = static_cast<size_t>(begin - segment.memory.data);
  if (offset + bytes > segment.memory.bytes) return {};
  return {number, segment.generation, offset};
}

}  // namespace dlrm::comm
