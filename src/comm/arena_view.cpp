#include <string>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "arena.h"
#include "memory_file.h"

namespace dlrm {

ArenaView::ArenaView(const Arena::Address& address, int rank) : address_(address), rank_(rank) {
  struct stat names {};
  if (::stat("/proc/self/ns/pid", &names) != 0 || names.st_ino != address.process_names) {
    throw run_error("shared memory: rank {} has a process namespace of its own", rank);
  }
  Mapped& first = mapped_[0];
  first.bytes = Arena::kFirst;
  first.data = open(address.file, address.inode, first.bytes);
  directory_ = reinterpret_cast<ArenaDirectory*>(first.data);
  first.generation = directory_->segments[0].generation.load();
  if (directory_->cookie == address.cookie) return;
  unmap(first);
  throw run_error("shared memory: process {} is not rank {}", address.process, rank);
}

ArenaView::~ArenaView() {
  for (Mapped& mapped : mapped_) unmap(mapped);
}

void ArenaView::unmap(Mapped& mapped) {
  if (mapped.data) ::munmap(mapped.data, mapped.bytes);
  mapped = {};
}

void ArenaView::unmap_what_was_given_back() {
  for (int s = 1; s < ArenaDirectory::kSegments; ++s) {
    const ArenaDirectory::Segment& shown = directory_->segments[s];
    if (shown.file.load() < 0 || shown.generation.load() != mapped_[s].generation) {
      unmap(mapped_[s]);
    }
  }
}

std::byte* ArenaView::map(Spot place) {
  unmap_what_was_given_back();
  const ArenaDirectory::Segment& shown = directory_->segments[place.segment()];
  Mapped& mapped = mapped_[place.segment()];
  const uint32_t generation = shown.generation.load();
  const size_t bytes = shown.bytes.load();
  if (place.nowhere() || generation != place.generation() || place.offset() >= bytes) {
    throw run_error("shared memory: rank {} has given back what it offered", rank_);
  }
  mapped.data = open(shown.file.load(), shown.inode.load(), bytes);
  mapped.bytes = bytes;
  mapped.generation = generation;
  return mapped.data;
}

std::byte* ArenaView::open(int32_t file, uint64_t inode, size_t bytes) const {
  std::string why;
  std::byte* data = map_memory_of(address_.process, file, inode, bytes, why);
  if (data) return data;
  if (!why.empty()) throw run_error("shared memory: rank {}: {}", rank_, why);
  const bool alive = ::access(fmt::format("/proc/{}", address_.process).c_str(), F_OK) == 0;
  if (!alive) throw run_error("rank {} is gone (process {})", rank_, address_.process);
  throw run_error("shared memory: rank {} has given back what it offered", rank_);
}

}  // namespace dlrm
