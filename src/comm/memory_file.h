#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace dlrm {

/// Memory in a file without a name, mapped here.
struct MemoryFile {
  std::byte* data = nullptr;  ///< null: none, and errno tells why
  size_t bytes = 0;
  int file = -1;
  uint64_t inode = 0;
};

/// Zero; its pages are set aside, in huge ones where the system allows: memory that is missing
/// later would end the process with a signal.
MemoryFile make_memory(size_t bytes);
/// Others keep what they have mapped of it.
void close_memory(const MemoryFile& memory);
/// Its pages go back to the system at once, also where others have mapped them.
void discard_memory(const MemoryFile& memory);

/// Maps what `file` is in process `process`, if it is a memory file of ours with that inode and
/// that many bytes. Null, with the reason in `why`, where it is not; "" where it is not there.
std::byte* map_memory_of(int64_t process, int32_t file, uint64_t inode, size_t bytes,
                         std::string& why);

}  // namespace dlrm
