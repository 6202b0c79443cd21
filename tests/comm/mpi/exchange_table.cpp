#include "exchange_table.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dlrm/core/error.h"

#include "comm/shared/exchange_table.h"

namespace dlrm::test {
namespace {

using comm::ExchangeDescriptor;
using comm::ExchangeTable;

constexpr uint64_t kCalls = 200;  // far more than the two chunks that a table begins with

void require(bool holds, const char* what, uint64_t call) {
  if (!holds) throw run_error("call {}: {}", call, what);
}

int64_t bytes_of(int from, int to, uint64_t call) {
  return static_cast<int64_t>(call) * 100 + from * 10 + to;
}

int payload_of(int from, uint64_t call) { return static_cast<int>(call * 7 % 251) + from; }

/// Reserves a descriptor for each call.
std::vector<ExchangeDescriptor*> fill(ExchangeTable& table, Communicator& comm) {
  std::vector<ExchangeDescriptor*> made;
  for (uint64_t call = 0; call < kCalls; ++call) {
    ExchangeDescriptor& mine = table.acquire(call);
    require(std::find(made.begin(), made.end(), &mine) == made.end(), "was reserved", call);
    made.push_back(&mine);
    mine.kind = static_cast<uint32_t>(call);
    std::memset(table.inline_payload(mine), payload_of(comm.rank(), call),
                ExchangeTable::kInlineBytes);
    for (int q = 0; q < comm.size(); ++q) {
      table.block_for(mine, q) = {bytes_of(comm.rank(), q, call), table.inline_address(mine)};
    }
  }
  return made;
}

void read(ExchangeTable& table, int from, int own, uint64_t call) {
  ExchangeDescriptor* found = table.find(from, call);
  require(found && found->kind == call, "another call's descriptor", call);
  const comm::BlockRef& block = table.block_for_me(*found);
  require(block.bytes == bytes_of(from, own, call), "another rank's block", call);
  const std::byte* payload = table.at(from, block.address);
  const auto value = static_cast<std::byte>(payload_of(from, call));
  require(std::count(payload, payload + ExchangeTable::kInlineBytes, value) ==
              ExchangeTable::kInlineBytes,
          "another payload", call);
  found->finish_reading();
}

/// A descriptor is free once its owner has released it and all its readers have finished.
void check_descriptors(ExchangeTable& table, Communicator& comm) {
  const std::vector<ExchangeDescriptor*> made = fill(table, comm);
  comm.barrier();
  for (int q = 0; q < comm.size(); ++q) {
    for (uint64_t call = 0; call < kCalls; ++call) {
      require(!table.find(q, call), "found before it is published", call);
    }
  }
  comm.barrier();
  const size_t released = kCalls / 2;
  for (size_t call = 0; call < kCalls; ++call) {
    made[call]->publish(call, comm.size() - 1);
    if (call < released) made[call]->in_use = false;
  }
  ExchangeDescriptor& extra = table.acquire(kCalls);
  require(std::find(made.begin(), made.end(), &extra) == made.end(), "still read", kCalls);
  extra.in_use = false;
  comm.barrier();
  for (int q = 0; q < comm.size(); ++q) {
    for (uint64_t call = 0; q != comm.rank() && call < kCalls; ++call) {
      read(table, q, comm.rank(), call);
    }
  }
  comm.barrier();
  const size_t bytes = table.group()->arena().bytes();
  std::set<ExchangeDescriptor*> again;
  for (uint64_t call = 0; call < released; ++call) again.insert(&table.acquire(1024 + call));
  require(again == std::set<ExchangeDescriptor*>(made.begin(), made.begin() + released),
          "other descriptors than the free ones", released);
  require(table.group()->arena().bytes() == bytes, "more memory", released);
}

std::string error_of_check(ExchangeTable& table) {
  try {
    table.group()->check_skipped();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Only bytes that are published for this rank are an error, in any of the last 256 skips.
void check_skips(ExchangeTable& table, Communicator& comm) {
  const int next = (comm.rank() + 1) % comm.size();
  for (const int bytes : {0, 7}) {
    const auto call = static_cast<uint64_t>(5000 + bytes);
    table.skip(next, call, "a call");
    require(error_of_check(table).empty(), "an error before it is published", call);
    comm.barrier();
    ExchangeDescriptor& mine = table.acquire(call);
    for (int q = 0; q < comm.size(); ++q) table.block_for(mine, q) = {bytes, {}};
    mine.publish(call, 0);
    comm.barrier();
    const auto expected =
        fmt::format("a call of rank {} sends 7 bytes to one that expects none", next);
    require(error_of_check(table) == (bytes > 0 ? expected : ""), "another error", call);
    comm.barrier();
    for (uint64_t later = 1; later < 256; ++later) table.skip(next, call + later * 10, "later");
    require(error_of_check(table) == (bytes > 0 ? expected : ""), "a skip is forgotten", call);
    table.skip(next, call + 9000, "later");
    require(error_of_check(table).empty(), "an old skip is kept", call);
  }
}

/// The memory of a table is used again unless a rank still reads one of its descriptors.
void check_memory(const std::shared_ptr<comm::SharedMemoryGroup>& group, int ranks) {
  constexpr uint64_t kUsed = 64, kNone = kUsed;
  constexpr uint32_t kUnread = 77;
  const auto use_a_table = [&](uint64_t unread) {
    ExchangeTable table(group, ranks);
    ExchangeDescriptor* kept = nullptr;
    for (uint64_t call = 0; call < kUsed; ++call) {
      ExchangeDescriptor& mine = table.acquire(call);
      mine.kind = call == unread ? kUnread : 0;
      if (call == unread) kept = &mine;
      mine.publish(call, call == unread ? 1 : 0);
    }
    return kept;
  };
  use_a_table(kNone);
  const size_t bytes = group->arena().bytes();
  for (uint64_t round = 0; round < 50; ++round) use_a_table(kNone);
  require(group->arena().bytes() == bytes, "memory is kept", kNone);
  for (const uint64_t unread : {uint64_t{0}, uint64_t{31}, uint64_t{32}, kUsed - 1}) {
    const ExchangeDescriptor* const kept = use_a_table(unread);
    for (int round = 0; round < 3; ++round) use_a_table(kNone);
    require(kept->kind == kUnread, "memory is freed", unread);
  }
}

}  // namespace

void check_exchange_table(Communicator& comm) {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  std::string why_not;
  const auto group = comm::SharedMemoryGroup::make(all, all, why_not);
  MPI_Comm_free(&all);
  if (!group) throw run_error("no shared memory: {}", why_not);
  {
    ExchangeTable table(group, comm.size());
    table.connect(comm.allgather(table.address()));
    check_descriptors(table, comm);
    check_skips(table, comm);
    comm.barrier();
  }
  check_memory(group, comm.size());
}

}  // namespace dlrm::test
