#include "facts.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <sys/resource.h>
#include <sys/statvfs.h>

#include "dlrm/comm/preflight.h"
#include "dlrm/core/cpus.h"
#include "dlrm/core/hash.h"
#include "dlrm/core/host_name.h"

namespace dlrm::preflight {
namespace {

template <size_t N>
void put(char (&to)[N], const std::string& text) {
  std::snprintf(to, N, "%s", text.c_str());
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

uint64_t sum_of_this_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  uint64_t hash = 0;
  std::vector<char> block(size_t{1} << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    hash = hash_bytes(block.data(), static_cast<size_t>(file.gcount()), hash);
  }
  return hash;
}

int64_t limit_of(decltype(RLIMIT_NOFILE) what) {
  rlimit limit{};
  if (getrlimit(what, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? -1 : static_cast<int64_t>(limit.rlim_cur);
}

int64_t free_shared_memory() {
  struct statvfs files {};
  if (statvfs("/dev/shm", &files) != 0) return 0;
  return static_cast<int64_t>(files.f_bavail) * static_cast<int64_t>(files.f_frsize);
}

void add_machine(Facts& facts) {
  put(facts.node, host_name());
  put(facts.mpi, mpi_version());
  put(facts.processor, processor());
  facts.program = sum_of_this_program();
  facts.cpus = usable_cpus();
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  std::error_code none;
  facts.infiniband = std::filesystem::directory_iterator("/sys/class/infiniband", none) !=
                     std::filesystem::directory_iterator();
  facts.shared_memory_bytes = free_shared_memory();
}

void add_gpus(Facts& facts) {
  const GpuReport gpus = inspect_gpus();
  facts.built_with_cuda = gpus.built;
  put(facts.driver, gpus.driver);
  facts.driver_cuda = gpus.driver_cuda;
  facts.program_cuda = gpus.program_cuda;
  facts.gpus = gpus.gpus;
  put(facts.gpu, gpus.name);
  put(facts.without_peer, gpus.without_peer);
  put(facts.nccl, gpus.nccl);
  put(facts.nccl_obstacle, gpus.nccl_obstacle);
}

}  // namespace

std::vector<Facts> gather_facts(World& world) {
  Facts facts;
  add_machine(facts);
  add_gpus(facts);
  facts.local_rank = world.local_rank();
  facts.local_size = world.local_size();
  world.comm().barrier();
  facts.clock =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return world.comm().allgather(facts);
}

}  // namespace dlrm::preflight
