#include "memory_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dlrm::comm {
namespace {

constexpr const char* kName = "dlrm";
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14

void* map_file(int file, size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

/// Allocates the pages. Returns 0 or an error number.
int allocate_pages(int file, void* data, size_t bytes) {
  ::madvise(data, bytes, MADV_HUGEPAGE);
  // By touching: fallocate allocates small pages if huge ones are only advised.
  if (::madvise(data, bytes, kPopulateWrite) == 0) return 0;
  if (errno != EINVAL) return errno;
  return ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
}

/// Returns the target of a descriptor's link in /proc; empty if there is none.
std::string target_of(const std::string& path) {
  char target[64] = "";
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target - 1);
  return length < 0 ? "" : std::string(target, static_cast<size_t>(length));
}

}  // namespace

MemoryFile create_memory_file(size_t bytes) {
  MemoryFile made;
  const int file = ::memfd_create(kName, MFD_CLOEXEC);
  if (file < 0) return made;
  struct stat facts {};
  void* data = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(bytes)) == 0 && ::fstat(file, &facts) == 0) {
    data = map_file(file, bytes);
  }
  const int error = data == MAP_FAILED ? errno : allocate_pages(file, data, bytes);
  if (error != 0) {
    if (data != MAP_FAILED) ::munmap(data, bytes);
    ::close(file);
    errno = error;
    return made;
  }
  return {static_cast<std::byte*>(data), bytes, file, facts.st_ino};
}

void discard_memory_file(const MemoryFile& memory) {
  // Not by fallocate: MPI's and drivers' caches of registered memory only notice madvise and
  // munmap.
  ::madvise(memory.data, memory.bytes, MADV_REMOVE);
  close_memory_file(memory);
}

void close_memory_file(const MemoryFile& memory) {
  ::munmap(memory.data, memory.bytes);
  ::close(memory.file);
}

std::byte* map_peer_memory(int64_t process, int32_t file, uint64_t inode, size_t bytes,
                           std::string& why) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, file);
  // Checked before it is opened: the descriptor may be a terminal or a pipe of another process.
  errno = 0;
  const std::string target = target_of(path);
  if (target.empty() && errno == ENOENT) {
    why.clear();
    return nullptr;
  }
  if (!target.empty() && target.rfind(fmt::format("/memfd:{}", kName), 0) != 0) {
    why = fmt::format("{} is no memory of a rank", path);
    return nullptr;
  }
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (opened < 0) {
    why = errno == ENOENT ? "" : fmt::format("{}: {}", path, std::strerror(errno));
    return nullptr;
  }
  struct stat facts {};
  const bool ours = ::fstat(opened, &facts) == 0 && facts.st_ino == inode &&
                    facts.st_size >= static_cast<off_t>(bytes);
  void* data = ours ? map_file(opened, bytes) : MAP_FAILED;
  why = ours ? fmt::format("{} cannot be mapped: {}", path, std::strerror(errno))
             : fmt::format("{} is another rank's memory", path);
  ::close(opened);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace dlrm::comm
