#include "shared_node.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "dlrm/core/error.h"
#include "dlrm/core/log.h"

#include "arena_device.h"
#include "board.h"
#include "control_group.h"
#include "mpi_comm.h"

namespace dlrm {
namespace {

constexpr int kReasonBytes = 200;

/// The reason of the lowest rank that has one, on rank 0; true if no rank has.
bool agree(MPI_Comm world, const std::string& mine, std::string& why) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world, &size), "MPI_Comm_size");
  char text[kReasonBytes] = "";
  std::strncpy(text, mine.c_str(), kReasonBytes - 1);
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

std::shared_ptr<SharedNode> SharedNode::make(MPI_Comm world, MPI_Comm local, std::string& why) {
  std::shared_ptr<SharedNode> node;
  std::string mine;
  try {
    if (switched_off()) throw run_error("DLRM_SHARED_MEMORY is off");
    node.reset(new SharedNode);
  } catch (const std::exception& error) {
    mine = error.what();
  }
  if (!agree(world, mine, why)) return nullptr;
  try {
    node->connect(world, local);
  } catch (const std::exception& error) {
    mine = error.what();
  }
  if (!agree(world, mine, why)) return nullptr;
  return node;
}

void SharedNode::connect(MPI_Comm world, MPI_Comm local) {
  int rank = 0, world_size = 1, size = 1;
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world, &world_size), "MPI_Comm_size");
  rank_ = rank;
  check_mpi(MPI_Comm_rank(local, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(local, &size), "MPI_Comm_size");
  struct Card {
    Arena::Address address;
    int rank;
  };
  const Card mine = {arena_.address(), rank};
  std::vector<Card> cards(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, cards.data(), sizeof mine, MPI_BYTE, local),
            "MPI_Allgather");
  local_of_.assign(static_cast<size_t>(world_size), -1);
  for (int q = 0; q < size; ++q) {
    const Card& card = cards[static_cast<size_t>(q)];
    local_of_[static_cast<size_t>(card.rank)] = q;
    views_.push_back(std::make_unique<ArenaView>(card.address, card.rank));
  }
}

void SharedNode::add(const Board& board) {
  const std::lock_guard lock(boards_mutex_);
  boards_.push_back(&board);
}

void SharedNode::remove(const Board& board) {
  const std::lock_guard lock(boards_mutex_);
  std::erase(boards_, &board);
}

void SharedNode::check_skipped() {
  const std::lock_guard lock(boards_mutex_);
  for (const Board* board : boards_) board->check_skipped();
}

void SharedNode::say_refused(size_t bytes) {
  if (said_refused_.exchange(true)) return;
  Log(rank_).warn("no more shared memory ({} MiB asked for, {} MiB held): MPI moves the rest",
                  bytes >> 20, arena_.bytes() >> 20);
}

Device& SharedNode::memory(Device& inner) {
  const std::lock_guard lock(devices_mutex_);
  const auto found = std::find(inner_.begin(), inner_.end(), &inner);
  if (found != inner_.end()) return *devices_[static_cast<size_t>(found - inner_.begin())];
  devices_.push_back(make_arena_device(
      inner, arena_, [this](size_t bytes) { say_refused(bytes); },
      [] { return ControlGroup::memory_room(); }));
  inner_.push_back(&inner);
  return *devices_.back();
}

}  // namespace dlrm
