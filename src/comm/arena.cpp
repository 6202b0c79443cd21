#include "arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kFirstSegment = size_t{1} << 20;
constexpr size_t kLargestStep = size_t{64} << 20;  // segments add half of what there is, up to this
constexpr size_t kHugePage = size_t{2} << 20;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

uint64_t random_cookie() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

void* map_file(int file, size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

}  // namespace

Arena::Arena() {
  if (!add_segment(kFirstSegment)) {
    throw run_error("shared memory: {}", std::strerror(errno));
  }
  directory_ = new (take(sizeof(ArenaDirectory))) ArenaDirectory{};
  directory_->cookie = random_cookie();
  directory_->segments[0] = {segments_[0].file, segments_[0].bytes};
  directory_->count.store(1, std::memory_order_release);
}

Arena::~Arena() {
  for (const Segment& segment : segments_) {
    ::munmap(segment.data, segment.bytes);
    ::close(segment.file);
  }
}

Arena::Address Arena::address() const {
  return {::getpid(), directory_->cookie, segments_[0].file};
}

bool Arena::add_segment(size_t bytes) {
  if (segments_.size() == ArenaDirectory::kSegments) return false;
  Segment segment;
  segment.file = ::memfd_create("dlrm", MFD_CLOEXEC);
  if (segment.file < 0) return false;
  segment.bytes = bytes;
  // Reserved now: memory that is missing later would end the process with a signal.
  const int error = ::posix_fallocate(segment.file, 0, static_cast<off_t>(bytes));
  void* data = error == 0 ? map_file(segment.file, bytes) : MAP_FAILED;
  if (data == MAP_FAILED) {
    ::close(segment.file);
    if (error != 0) errno = error;
    return false;
  }
  segment.data = static_cast<std::byte*>(data);
  segment.free.emplace(0, bytes);
  if (directory_) {
    const size_t number = segments_.size();
    directory_->segments[number] = {segment.file, bytes};
    directory_->count.store(static_cast<int32_t>(number) + 1, std::memory_order_release);
  }
  segments_.push_back(std::move(segment));
  return true;
}

void* Arena::take_from(Segment& segment, size_t bytes) {
  const auto found = std::find_if(segment.free.begin(), segment.free.end(),
                                  [&](const auto& block) { return block.second >= bytes; });
  if (found == segment.free.end()) return nullptr;
  if (!segment.reserved) {
    if (::posix_fallocate(segment.file, 0, static_cast<off_t>(segment.bytes)) != 0) return nullptr;
    segment.reserved = true;
  }
  const auto [offset, length] = *found;
  segment.free.erase(found);
  if (length > bytes) segment.free.emplace(offset + bytes, length - bytes);
  return segment.data + offset;
}

void* Arena::take(size_t bytes) {
  bytes = rounded(std::max<size_t>(bytes, 1), kLine);
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (size_t s = 0;; ++s) {
    if (s == segments_.size()) {
      const size_t step = std::clamp(total / 2, kFirstSegment, kLargestStep);
      if (!add_segment(std::max(rounded(bytes, kHugePage), step))) return nullptr;
    }
    total += segments_[s].bytes;
    void* pointer = take_from(segments_[s], bytes);
    if (!pointer) continue;
    taken_.emplace(pointer, std::pair(s, bytes));
    return pointer;
  }
}

bool Arena::give_back(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(pointer);
  if (found == taken_.end()) return false;
  const auto [s, bytes] = found->second;
  taken_.erase(found);
  Segment& segment = segments_[s];
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(pointer) - segment.data);
  add_free(segment, offset, bytes);
  if (segment.free.begin()->second == segment.bytes && segment.bytes >= kHugePage) {
    // Not by fallocate: what MPI and drivers keep of registered memory hears of madvise.
    segment.reserved = ::madvise(segment.data, segment.bytes, MADV_REMOVE) != 0;
  }
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
  for (size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    if (begin < segment.data || begin + bytes > segment.data + segment.bytes) continue;
    return {static_cast<int>(s), static_cast<size_t>(begin - segment.data)};
  }
  return {};
}

ArenaView::ArenaView(const Arena::Address& address) : address_(address) {
  mapped_[0].bytes = kFirstSegment;
  directory_ = reinterpret_cast<ArenaDirectory*>(map(0));
  if (directory_->cookie == address.cookie) return;
  ::munmap(mapped_[0].data, mapped_[0].bytes);
  throw run_error("shared memory: process {} is not the one expected", address.process);
}

ArenaView::~ArenaView() {
  for (const Mapped& mapped : mapped_) {
    if (mapped.data) ::munmap(mapped.data, mapped.bytes);
  }
}

std::byte* ArenaView::map(size_t segment) {
  int number = address_.file;
  if (directory_) {
    DLRM_CHECK(static_cast<int>(segment) < directory_->count.load(std::memory_order_acquire),
               "segment {} of process {} is not there", segment, address_.process);
    number = directory_->segments[segment].file;
    mapped_[segment].bytes = directory_->segments[segment].bytes;
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", address_.process, number);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* data = file < 0 ? MAP_FAILED : map_file(file, mapped_[segment].bytes);
  const int error = errno;
  if (file >= 0) ::close(file);
  if (data == MAP_FAILED) {
    throw run_error("shared memory: {} cannot be mapped: {}", path, std::strerror(error));
  }
  return mapped_[segment].data = static_cast<std::byte*>(data);
}

}  // namespace dlrm
