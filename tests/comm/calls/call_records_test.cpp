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
#include "dlrm/wire/message_bytes.h"

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

TEST(CallRecords, OfOneRankAreTheSame) {
  const auto comm = make_self_comm();
  std::vector<float> floats(5, 1);
  std::vector<int64_t> integers(3, 4);
  EXPECT_EQ(entered_by(*comm, [&] { comm->start_allreduce<float>(floats).wait(); }),
            "allreduce 20");
  EXPECT_EQ(entered_by(*comm, [&] { comm->allreduce_max(integers); }), "allreduce_max 24");
  EXPECT_EQ(entered_by(*comm, [&] { comm->barrier(); }), "barrier 0");
  EXPECT_EQ(comm->describe(), "alone");
}

TEST(CallRecords, OfADeviceCommunicatorAreTheSame) {
  const auto host = make_self_comm();
  const auto device = make_cpu_device();
  const auto wire = make_device_comm(*host, *device);
  const auto last = [&] {
    std::string found;
    wire->engine()->monitor().each_call_log([&](const CallLog& log) {
      if (log.entered() == 0) return;
      const CallLog::Entry call = log.call(log.entered());
      found += std::string(call.name) + " " + std::to_string(call.bytes);
    });
    return found;
  };
  EXPECT_EQ(last(), "");
  std::vector<float> floats(5, 1);
  std::vector<double> doubles(5, 1);
  wire->start_allreduce<float>(floats).wait();
  EXPECT_EQ(last(), "allreduce 20");
  wire->start_allreduce<double>(doubles).wait();
  EXPECT_EQ(last(), "allreduce 40");
  wire->start_allreduce<float>({}).wait();
  EXPECT_EQ(last(), "allreduce 0");
}

/// Progress is what the watchdog looks for: each call that is entered, and each part that ends.
TEST(CallRecords, CountAsProgress) {
  run_on_threads(3, [](Communicator& comm) {
    const Monitor& monitor = comm.engine()->monitor();
    std::vector<float> small(1, 1), large(kOneExchangeBytes, 1);  // the large sum has two parts
    uint64_t before = monitor.progress();
    const auto gained = [&](const std::function<void()>& call) {
      call();
      const uint64_t gain = monitor.progress() - before;
      before += gain;
      return gain;
    };
    const uint64_t one = gained([&] { comm.allreduce<float>(small); });
    EXPECT_GT(one, 1u);
    EXPECT_GT(gained([&] { comm.allreduce<float>(large); }), one);
    EXPECT_GT(gained([&] { comm.barrier(); }), 1u);
  });
}

TEST(CallRecords, EndWithTheirCommunicator) {
  const auto comm = make_self_comm();
  std::vector<int> ids;
  const auto list = [&] {
    ids.clear();
    comm->engine()->monitor().each_call_log([&](const CallLog& log) { ids.push_back(log.id()); });
    return ids;
  };
  auto first = comm->duplicate();
  const auto second = comm->duplicate();
  EXPECT_EQ(list(), (std::vector<int>{0, 1, 2}));
  first.reset();
  EXPECT_EQ(list(), (std::vector<int>{0, 2}));
  const auto third = comm->duplicate();
  EXPECT_EQ(list(), (std::vector<int>{0, 2, 3}));
}

TEST(CallLog, KeepsTheLastEightCalls) {
  CallLog log(5);
  EXPECT_EQ(log.id(), 5);
  EXPECT_EQ(log.entered(), 0u);
  for (int64_t i = 1; i <= 20; ++i) log.enter(i % 2 ? "odd" : "even", i);
  EXPECT_EQ(log.entered(), 20u);
  for (int64_t i = 13; i <= 20; ++i) {
    EXPECT_STREQ(log.call(static_cast<uint64_t>(i)).name, i % 2 ? "odd" : "even");
    EXPECT_EQ(log.call(static_cast<uint64_t>(i)).bytes, i);
  }
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

TEST(ExchangeLayouts, ArePackedInTheOrderOfRanks) {
  const ExchangeLayout layout = ExchangeLayout::packed({3, 0, 5}, {1, 7, 2});
  EXPECT_EQ(layout.send_offsets, (std::vector<int64_t>{0, 3, 3}));
  EXPECT_EQ(layout.receive_offsets, (std::vector<int64_t>{0, 1, 8}));
  EXPECT_EQ(layout.send_total(), 8);
  EXPECT_EQ(layout.receive_total(), 10);
}

TEST(PeerLost, NamesTheRank) {
  const PeerLost lost(ExitCode::kFailure, 4);
  EXPECT_STREQ(lost.what(), "rank 4 failed or vanished");
  EXPECT_EQ(lost.rank(), 4);
}

TEST(Monitor, TellsTheFirstFailureOfItsSources) {
  struct Source final : FailureSource {
    explicit Source(std::string text) : text(std::move(text)) {}
    std::string failure() override { return text; }
    std::string text;
  };
  Monitor monitor;
  EXPECT_EQ(monitor.failure(), "");
  Source none(""), first("first"), second("second");
  for (FailureSource* source :
       {static_cast<FailureSource*>(&none), static_cast<FailureSource*>(&first),
        static_cast<FailureSource*>(&second)}) {
    monitor.add(*source);
  }
  EXPECT_EQ(monitor.failure(), "first");
  monitor.remove(first);
  EXPECT_EQ(monitor.failure(), "second");
  monitor.remove(second);
  EXPECT_EQ(monitor.failure(), "");
}

}  // namespace
}  // namespace dlrm::comm
