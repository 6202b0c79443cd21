#include "shared_calls.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/device/device.h"

#include "comm/calls/progress_engine.h"
#include "comm/mpi/mpi_comm.h"
#include "comm/shared/exchange_table.h"
#include "comm/shared/shared_allreduce.h"
#include "comm/shared/shared_memory_group.h"

namespace dlrm::test {
namespace {

using comm::ExchangeTable;
using comm::SharedMemoryGroup;

constexpr int64_t kMiB = 1 << 20;

void require(bool holds, const char* what, int64_t size) {
  if (!holds) throw run_error("{}: {}", size, what);
}

MPI_Comm all_ranks() {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  return all;
}

std::shared_ptr<SharedMemoryGroup> make_group(std::string& why) {
  MPI_Comm all = all_ranks();
  auto group = SharedMemoryGroup::make(all, all, why);
  MPI_Comm_free(&all);
  return group;
}

/// Rank 0 receives a large block of rank 1 before rank 2 sends one of another length.
void check_large_blocks_in_turn(Communicator& comm, Communicator& other) {
  if (comm.size() < 3) return;
  const int64_t lengths[] = {0, 4 * kMiB + 8, 4 * kMiB + 24};
  const int me = comm.rank();
  const int64_t mine = me < 3 ? lengths[me] : 0;
  std::vector<int64_t> sends(static_cast<size_t>(comm.size())), receives(sends.size());
  sends[0] = mine;
  for (size_t q = 1; me == 0 && q < 3; ++q) receives[q] = lengths[q];
  const ExchangeLayout layout = ExchangeLayout::packed(sends, receives);
  const std::vector<char> send(static_cast<size_t>(mine), static_cast<char>('a' + me));
  std::vector<char> received(static_cast<size_t>(layout.receive_total()));
  Pending call;
  if (me != 2) call = comm.start_alltoallv(send.data(), received.data(), layout);
  if (me == 1) call.wait();
  other.barrier();
  for (int polls = 0; me == 0 && polls < 1000; ++polls) call.poll();
  other.barrier();
  if (me == 2) call = comm.start_alltoallv(send.data(), received.data(), layout);
  call.wait();
  for (size_t i = 0; i < received.size(); ++i) {
    const char expected = static_cast<int64_t>(i) < lengths[1] ? 'b' : 'c';
    require(received[i] == expected, "another rank's byte", static_cast<int64_t>(i));
  }
}

template <class Op>
using SumOf = comm::SharedAllreduce<Op, int64_t, int64_t>;

template <class Op>
std::unique_ptr<comm::Call> started(Communicator& comm, ExchangeTable& table, const char* name,
                                    View<int64_t> data) {
  std::unique_ptr<SumOf<Op>> call(new (comm::call_pool_of(comm))
                                      SumOf<Op>(comm, table, name, data));
  call->start();
  return call;
}

/// Ranks in different calls wait for one another. Those of different lengths name them. Neither
/// disturbs the sums that follow.
void check_calls_that_do_not_match(ExchangeTable& table, Communicator& comm, Communicator& other) {
  const int me = comm.rank();
  for (int round = 0; round < 40; ++round) {  // more than a chunk of descriptors has
    std::vector<int64_t> data{me + 10, me + 20, me + 30, me + 40};
    const std::vector<int64_t> before = data;
    auto call = me == 0 ? started<comm::Max>(comm, table, "allreduce_max", data)
                        : started<comm::Sum>(comm, table, "allreduce", data);
    other.barrier();
    for (int polls = 0; polls < 5; ++polls) {
      require(!call->poll(), "a sum of different calls", round);
    }
    other.barrier();
    call.reset();
    require(data == before, "values of a call that did not take place", round);

    const View<int64_t> some = View<int64_t>(data).subspan(0, me == 0 ? 3 : 4);
    call = started<comm::Sum>(comm, table, "allreduce", some);
    std::string error;
    try {
      while (!call->poll()) {
      }
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    require(error == (me == 0 ? "allreduce of rank 0 is over 24 bytes, that of rank 1 over 32"
                              : fmt::format("allreduce of rank {} is over 32 bytes, that of rank "
                                            "0 over 24",
                                            me)),
            "another error", round);
    other.barrier();
    call.reset();

    call = started<comm::Sum>(comm, table, "allreduce", data);
    while (!call->poll()) {
    }
    for (size_t i = 0; i < data.size(); ++i) {
      int64_t sum = 0;
      for (int q = 0; q < comm.size(); ++q) sum += q + 10 * static_cast<int64_t>(i + 1);
      require(data[i] == sum, "a sum after calls that did not match", round);
    }
  }
}

/// Only one word switches shared memory off, for all ranks if one of them has it.
void check_switch(Communicator& host) {
  constexpr const char* kSwitch = "DLRM_SHARED_MEMORY";
  struct Case {
    std::string value;
    int first_rank;  ///< that has it; so have all higher ones
  };
  for (const Case& c : {Case{"on", 0}, Case{"", 0}, Case{"offline", 0}, Case{"off", 0},
                        Case{"off", host.size() - 1}}) {
    if (host.rank() >= c.first_rank) ::setenv(kSwitch, c.value.c_str(), 1);
    std::string why;
    const bool shares = make_group(why) != nullptr;
    ::unsetenv(kSwitch);
    require(shares == (c.value != "off"), "shares memory, or does not", c.first_rank);
    const bool told = !shares && host.rank() == 0;
    require(why == (told ? "DLRM_SHARED_MEMORY is off" : ""), "another reason", c.first_rank);
  }
}

/// What `act` writes to stderr.
template <class Act>
std::string errors_of(Act act) {
  std::FILE* file = std::tmpfile();
  std::fflush(stderr);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  act();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

/// The system has no more memory: tables say so, and devices once.
void check_exhaustion(Communicator& host) {
  std::string why;
  const auto group = make_group(why);
  group->arena().limit_to(0);
  const std::shared_ptr<Device> device = make_cpu_device();
  const std::string said = errors_of([&] {
    for (const int64_t bytes : {3 * kMiB + 5, 7 * kMiB}) {
      const Array<char> values(group->device_over(*device), static_cast<size_t>(bytes), "test");
      require(group->arena().address_of(values.data(), 1).is_null(), "memory after the last", 0);
    }
  });
  const std::string expected = fmt::format(
      "warning: {}no more shared memory (3 MiB asked for, {} MiB held): MPI moves the rest\n",
      host.rank() == 0 ? "" : fmt::format("rank {}: ", host.rank()), group->arena().bytes() >> 20);
  const size_t at = said.find(expected);
  if (at == std::string::npos || at + expected.size() != said.size() ||
      said.find('\n') + 1 != said.size()) {
    throw run_error("rank {} warns: {}", host.rank(), said);
  }
  std::vector<std::unique_ptr<ExchangeTable>> tables;
  std::string error;
  try {
    while (tables.size() < 100) {
      tables.push_back(std::make_unique<ExchangeTable>(group, host.size()));
    }
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  const int64_t descriptor = 64 + (host.size() * 16 + 63) / 64 * 64 + ExchangeTable::kInlineBytes;
  require(
      error == fmt::format("out of shared memory: {} bytes for exchanges", 64 + 32 * descriptor),
      "another error of a table", descriptor);
}

}  // namespace

void check_shared_calls(Communicator& host) {
  std::string why;
  const auto group = make_group(why);
  if (!group) throw run_error("no shared memory: {}", why);
  const auto comm = comm::make_mpi_comm(
      all_ranks(), std::make_shared<comm::ProgressEngine>(comm::WaitPolicy::kYield), nullptr,
      group);
  const auto other = comm->duplicate();
  check_large_blocks_in_turn(*comm, *other);
  {
    ExchangeTable table(group, host.size());
    table.connect(host.allgather(table.address()));
    check_calls_that_do_not_match(table, *comm, *other);
    host.barrier();
  }
  check_switch(host);
  check_exhaustion(host);
  host.barrier();
}

}  // namespace dlrm::test
