#include "comm/shared/memory_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "comm/shared/arena.h"
#include "refused_calls.h"

namespace dlrm::comm {
namespace {

constexpr size_t kBytes = 1 << 16;
using test::in_process_with;
using test::Refusal;
using test::Refusals;

/// The number of the next descriptor. It is higher after one stayed open.
int next_descriptor() {
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  return next;
}

bool is_memory_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:dlrm") != std::string::npos) return true;
  }
  return false;
}

/// Whether a file of kBytes is made, or why not, and what stays if it is not.
std::string made() {
  const int before = next_descriptor();
  const MemoryFile memory = create_memory_file(kBytes);
  const int error = errno;
  if (!memory.data) {
    return std::strerror(error) +
           std::string(next_descriptor() == before ? "" : ", it stays open") +
           (is_memory_mapped() ? ", it stays mapped" : "");
  }
  struct stat facts {};
  if (::fstat(memory.file, &facts) != 0) return "not open";
  std::memset(memory.data, 1, kBytes);
  discard_memory_file(memory);
  return facts.st_blocks * 512 >= static_cast<int64_t>(kBytes) ? "whole" : "without its pages";
}

#ifdef SYS_newfstatat
const Refusals kNoFstat{{SYS_fstat, EIO}, {SYS_newfstatat, EIO}};
#else
const Refusals kNoFstat{{SYS_fstat, EIO}};
#endif
constexpr Refusal kNoMap{SYS_mmap, ENOMEM, 3, MAP_SHARED};
constexpr uint32_t kPopulateWrite = 23;

TEST(MemoryFile, SaysWhyItIsNotMadeAndLeavesNothing) {
  if (in_process_with({}, [] { return "there are filters"; }).empty()) {
    GTEST_SKIP() << "no filters of system calls here";
  }
  EXPECT_EQ(in_process_with({}, made), "whole");
  EXPECT_EQ(in_process_with({{SYS_memfd_create, EMFILE}}, made), "Too many open files");
  EXPECT_EQ(in_process_with({{SYS_ftruncate, ENOSPC}}, made), "No space left on device");
  EXPECT_EQ(in_process_with(kNoFstat, made), "Input/output error");
  EXPECT_EQ(in_process_with({kNoMap}, made), "Cannot allocate memory");
  // Linux before 5.14 cannot populate.
  EXPECT_EQ(in_process_with({{SYS_madvise, EINVAL, 2, kPopulateWrite}}, made), "whole");
  EXPECT_EQ(in_process_with({{SYS_madvise, ENOMEM, 2, kPopulateWrite}}, made),
            "Cannot allocate memory");
  EXPECT_EQ(
      in_process_with({{SYS_madvise, EINVAL, 2, kPopulateWrite}, {SYS_fallocate, ENOSPC}}, made),
      "No space left on device");
}

TEST(MemoryFile, OfAnArenaThatIsNotMade) {
  if (in_process_with({}, [] { return "there are filters"; }).empty()) {
    GTEST_SKIP() << "no filters of system calls here";
  }
  const auto arena = [] {
    try {
      Arena made;
      return std::string(made.allocate(Arena::kLargeBlock) ? "made" : "no large block");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(in_process_with({}, arena), "made");
  EXPECT_EQ(in_process_with({{SYS_memfd_create, EMFILE}}, arena),
            "shared memory: Too many open files");
  // Large blocks have files of their own, and the arena lives on without them.
  EXPECT_EQ(in_process_with({{SYS_ftruncate, ENOSPC, 1, Arena::kLargeBlock}}, arena),
            "no large block");
}

TEST(MemoryFile, OfAPeerThatCannotBeMappedSaysWhy) {
  if (in_process_with({}, [] { return "there are filters"; }).empty()) {
    GTEST_SKIP() << "no filters of system calls here";
  }
  const MemoryFile memory = create_memory_file(kBytes);
  ASSERT_TRUE(memory.data);
  const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), memory.file);
  const auto mapped = [&, owner = ::getpid()] {
    const int before = next_descriptor();
    std::string why = "nothing said";
    const std::byte* data = map_peer_memory(owner, memory.file, memory.inode, kBytes, why);
    if (next_descriptor() != before) return std::string("it stays open");
    if (data) return std::string("mapped");
    return why.empty() ? "given back" : why;
  };
  EXPECT_EQ(in_process_with({}, mapped), "mapped");
  EXPECT_EQ(in_process_with({kNoMap}, mapped), path + " cannot be mapped: Cannot allocate memory");
  EXPECT_EQ(in_process_with(kNoFstat, mapped), path + " is another rank's memory");
#ifdef SYS_readlink
  // A descriptor that may not be looked at is opened nevertheless. It was given back if it is gone.
  EXPECT_EQ(in_process_with({{SYS_readlink, EACCES}}, mapped), "mapped");
  EXPECT_EQ(in_process_with({{SYS_readlink, ENOENT}}, mapped), "given back");
#endif
  EXPECT_EQ(in_process_with({{SYS_openat, EACCES}}, mapped), path + ": Permission denied");
  EXPECT_EQ(in_process_with({{SYS_openat, ENOENT}}, mapped), "given back");
  std::string why;
  EXPECT_EQ(map_peer_memory(::getpid(), memory.file, memory.inode, kBytes + 1, why), nullptr);
  EXPECT_EQ(why, path + " is another rank's memory");
  close_memory_file(memory);
}

}  // namespace
}  // namespace dlrm::comm
