#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace dlrm::comm {

/// A file of memory without a name, mapped into this process.
struct MemoryFile {
  std::byte* data = nullptr;  ///< null: none, errno tells why
  size_t bytes = 0;
  int file = -1;  ///< descriptor
  uint64_t inode = 0;
};

/// Creates `bytes` zero bytes. All pages are allocated at once, huge ones if the system allows:
/// running out of memory later would kill the process.
MemoryFile create_memory_file(size_t bytes);
/// Other processes keep their mappings.
void close_memory_file(const MemoryFile& memory);
/// Returns the pages to the system at once, even if other processes have mapped them.
void discard_memory_file(const MemoryFile& memory);

/// Maps descriptor `file` of process `process` if it is a file made by create_memory_file() with
/// that inode and at least `bytes` bytes. Otherwise returns null and puts the reason in `why`;
/// empty if the descriptor or the process does not exist.
std::byte* map_peer_memory(int64_t process, int32_t file, uint64_t inode, size_t bytes,
                           std::string& why);

}  // namespace dlrm::comm
