// What collectives record for the watchdog, and the arguments that they refuse.
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/device_comm.h"
#include "dlrm/comm/thread_comm.h"
#include "dlrm/device/device.h"

#include "comm/calls/progress_engine.h"

namespace dlrm::comm {
namespace {

/// "name bytes" of the last call on the first communicator of this rank, and how many calls
/// `call` enters there.
std::string entered_by(Communicator& comm, const std::function<void()>& call) {
  const auto read = [&] {
    std::pair<uint64_t, std::string> found{0, ""};
    comm.engine()->monitor().each_call_log([&](const CallLog& log) {
      if (log.id() != 0) return;
      const CallLog::Entry last = log.call(log.entered());
      found = {log.entered(), std::string(last.name) + " " + std::to_string(last.bytes)};
    });
    return found;
  };
  const uint64_t before = read().first;
  call();
  const auto [after, last] = read();
  return after - before == 1 ? last : std::to_string(after - before) + " calls";
}

TEST(CallRecords, NameEachCollectiveAndTheBytesOfThisRank) {
  run_on_threads(3, [](Communicator& comm) {
    const int me = comm.rank();
    std::vector<char> from(100), to(100);
    ExchangeLayout layout;
    layout.send_bytes = {8, 8, 8}, layout.send_offsets = {0, 8, 16};
    layout.receive_bytes = {8, 8, 8}, layout.receive_offsets = {0, 8, 16};
    EXPECT_EQ(entered_by(comm, [&] { comm.alltoallv(from.data(), to.data(), layout); }),
              "alltoallv 24");
    const std::vector<int64_t> bytes = {1, 2, 3}, offsets = {0, 1, 3};
    EXPECT_EQ(
        entered_by(comm,
                   [&] { comm.start_allgatherv(from.data(), to.data(), bytes, offsets).wait(); }),
        "allgatherv " + std::to_string(me + 1));
    EXPECT_EQ(entered_by(comm, [&] { comm.broadcast(to.data(), 7, 1); }), "broadcast 7");
    EXPECT_EQ(entered_by(comm, [&] { comm.barrier(); }), "barrier 0");
    std::vector<float> floats(5, 1), none;
    std::vector<int64_t> integers(3, me);
    EXPECT_EQ(entered_by(comm, [&] { comm.start_allreduce<float>(floats).wait(); }),
              "allreduce 20");
    EXPECT_EQ(entered_by(comm, [&] { comm.start_allreduce<float>(none).wait(); }), "allreduce 0");
    EXPECT_EQ(entered_by(comm, [&] { comm.allreduce_max(integers); }), "allreduce_max 24");
    EXPECT_EQ(integers, std::vector<int64_t>(3, 2));
    EXPECT_EQ(entered_by(comm, [&] { comm.allreduce_max({}); }), "allreduce_max 0");
  });
}

TEST(Refused, AreListsThatDoNotHaveAnEntryForEachRank) {
  const auto comm = make_self_comm();
  char from[8] = {}, to[8] = {};
  const ExchangeLayout good = ExchangeLayout::packed({4}, {4});
  EXPECT_NO_THROW(comm->alltoallv(from, to, good));
  for (int which = 0; which < 4; ++which) {
    ExchangeLayout bad = good;
    std::vector<int64_t>* lists[] = {&bad.send_bytes, &bad.send_offsets, &bad.receive_bytes,
                                     &bad.receive_offsets};
    lists[which]->push_back(0);
    EXPECT_THROW(comm->alltoallv(from, to, bad), std::exception) << which;
  }
  const std::vector<int64_t> one = {4}, two = {4, 4};
  EXPECT_NO_THROW(comm->start_allgatherv(from, to, one, one).wait());
  EXPECT_THROW(comm->start_allgatherv(from, to, two, one), std::exception);
  EXPECT_THROW(comm->start_allgatherv(from, to, one, two), std::exception);
  EXPECT_THROW(comm->broadcast(to, 4, -1), std::exception);
  EXPECT_THROW(comm->broadcast(to, 4, 1), std::exception);
  EXPECT_NO_THROW(comm->broadcast(to, 4, 0));
  EXPECT_THROW(comm->alltoallv(from, to, ExchangeLayout::packed({4}, {3})), std::exception);
  EXPECT_THROW(run_on_threads(0, [](Communicator&) {}), std::exception);
}

TEST(Refused, AreWiresThatAreNoTypeOfTheValues) {
  run_on_threads(2, [](Communicator& comm) {
    std::vector<float> floats(3);
    std::vector<double> doubles(3);
    EXPECT_THROW(comm.start_allreduce<float>(floats, DType::kFloat16), std::exception);
    EXPECT_THROW(comm.start_allreduce<double>(doubles, DType::kBFloat16), std::exception);
    comm.barrier();
  });
}

}  // namespace
}  // namespace dlrm::comm
