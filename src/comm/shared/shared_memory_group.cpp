#include "shared_memory_group.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "dlrm/core/error.h"
#include "dlrm/core/log.h"

#include "arena_device.h"
#include "comm/mpi/mpi_comm.h"
#include "comm/world/control_group.h"
#include "exchange_table.h"

namespace dlrm::comm {
namespace {

constexpr int kReasonBytes = 200;

/// Returns true if no rank has a reason. Otherwise puts that of the lowest rank in `why` on rank 0.
bool agree(MPI_Comm world, const std::string& mine, std::string& why) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world, &size), "MPI_Comm_size");
  char text[kReasonBytes] = "";
  std::snprintf(text, sizeof text, "%s", mine.c_str());
  std::vector<char> all(static_cast<size_t>(size) * kReasonBytes);
  check_mpi(MPI_Allgather(text, kReasonBytes, MPI_CHAR, all.data(), kReasonBytes, MPI_CHAR, world),
            "MPI_Allgather");
  for (size_t at = 0; at < all.size(); at += kReasonBytes) {
    if (all[at] == 0) continue;
    if (rank == 0) why = all.data() + at;
    return false;
  }
  return true;
}

bool switched_off() {
  const char* value = std::getenv("DLRM_SHARED_MEMORY");
  return value && std::strcmp(value, "off") == 0;
}

}  // namespace

std::shared_ptr<SharedMemoryGroup> SharedMemoryGroup::make(MPI_Comm world, MPI_Comm local,
                                                           std::string& why) {
  std::shared_ptr<SharedMemoryGroup> group;
  std::string mine;
  try {
    if (switched_off()) throw run_error("DLRM_SHARED_MEMORY is off");
    group.reset(new SharedMemoryGroup);
  } catch (const std::exception& error) {
    mine = error.what();
  }
  if (!agree(world, mine, why)) return nullptr;
  try {
    group->connect(world, local);
  } catch (const std::exception& error) {
    mine = error.what();
  }
  if (!agree(world, mine, why)) return nullptr;
  return group;
}

void SharedMemoryGroup::connect(MPI_Comm world, MPI_Comm local) {
  int rank = 0, world_size = 1, size = 1;
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world, &world_size), "MPI_Comm_size");
  rank_ = rank;
  check_mpi(MPI_Comm_rank(local, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(local, &size), "MPI_Comm_size");
  struct Peer {
    ArenaHandle handle;
    int rank;
  };
  const Peer mine = {arena_.handle(), rank};
  std::vector<Peer> peers(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, peers.data(), sizeof mine, MPI_BYTE, local),
            "MPI_Allgather");
  local_of_.assign(static_cast<size_t>(world_size), -1);
  for (int q = 0; q < size; ++q) {
    const Peer& peer = peers[static_cast<size_t>(q)];
    local_of_[static_cast<size_t>(peer.rank)] = q;
    views_.push_back(std::make_unique<ArenaView>(peer.handle, peer.rank));
  }
}

void SharedMemoryGroup::add(const ExchangeTable& table) {
  const std::lock_guard lock(tables_mutex_);
  tables_.push_back(&table);
}

void SharedMemoryGroup::remove(const ExchangeTable& table) {
  const std::lock_guard lock(tables_mutex_);
  std::erase(tables_, &table);
}

void SharedMemoryGroup::check_skipped() {
  const std::lock_guard lock(tables_mutex_);
  for (const ExchangeTable* table : tables_) table->check_skipped();
}

void SharedMemoryGroup::warn_exhausted(size_t bytes) {
  std::call_once(warned_, [&] {
    Log(rank_).warn("no more shared memory ({} MiB asked for, {} MiB held): MPI moves the rest",
                    bytes >> 20, arena_.bytes() >> 20);
  });
}

Device& SharedMemoryGroup::device_over(Device& inner) {
  const std::lock_guard lock(devices_mutex_);
  for (const SharedDevice& shared : devices_) {
    if (shared.inner == &inner) return *shared.device;
  }
  auto device = make_arena_device(
      inner, arena_, [this](size_t bytes) { warn_exhausted(bytes); },
      [] { return ControlGroup::memory_room(); });
  devices_.push_back({&inner, std::move(device)});
  return *devices_.back().device;
}

}  // namespace dlrm::comm
