#include "arena_view.h"

#include <string>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "memory_file.h"

namespace dlrm::comm {

ArenaView::ArenaView(const ArenaHandle& handle, int rank) : handle_(handle), rank_(rank) {
  struct stat facts {};
  if (::stat("/proc/self/ns/pid", &facts) != 0 || facts.st_ino != handle.pid_namespace) {
    throw run_error("shared memory: rank {} has a process namespace of its own", rank);
  }
  Mapping& first = mappings_[0];
  first.bytes = Arena::kFirstSegment;
  first.data = open(handle.file, handle.inode, first.bytes);
  table_ = reinterpret_cast<SegmentTable*>(first.data);
  first.generation = table_->segments[0].generation.load();
  if (table_->cookie == handle.cookie) return;
  unmap(first);
  throw run_error("shared memory: process {} is not rank {}", handle.process, rank);
}

ArenaView::~ArenaView() {
  for (Mapping& mapping : mappings_) unmap(mapping);
}

void ArenaView::unmap(Mapping& mapping) {
  if (mapping.data) ::munmap(mapping.data, mapping.bytes);
  mapping = {};
}

void ArenaView::unmap_freed_segments() {
  for (int s = 1; s < SegmentTable::kSegments; ++s) {
    const SegmentTable::Segment& entry = table_->segments[s];
    if (entry.file.load() < 0 || entry.generation.load() != mappings_[s].generation) {
      unmap(mappings_[s]);
    }
  }
}

std::byte* ArenaView::map(ArenaAddress address) {
  unmap_freed_segments();
  const SegmentTable::Segment& entry = table_->segments[address.segment()];
  Mapping& mapping = mappings_[address.segment()];
  const uint32_t generation = entry.generation.load();
  const size_t bytes = entry.bytes.load();
  if (generation != address.generation() || address.offset() >= bytes) {
    throw run_error("shared memory: rank {} has given back what it offered", rank_);
  }
  mapping.data = open(entry.file.load(), entry.inode.load(), bytes);
  mapping.bytes = bytes;
  mapping.generation = generation;
  return mapping.data;
}

std::byte* ArenaView::open(int32_t file, uint64_t inode, size_t bytes) const {
  std::string why;
  std::byte* data = map_peer_memory(handle_.process, file, inode, bytes, why);
  if (data) return data;
  if (!why.empty()) throw run_error("shared memory: rank {}: {}", rank_, why);
  const bool alive = ::access(fmt::format("/proc/{}", handle_.process).c_str(), F_OK) == 0;
  if (!alive) throw run_error("rank {} is gone (process {})", rank_, handle_.process);
  throw run_error("shared memory: rank {} has given back what it offered", rank_);
}

}  // namespace dlrm::comm
