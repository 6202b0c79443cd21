#include "dlrm/comm/thread_comm.h"

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

std::string failure_of(int ranks, const std::function<void(Communicator&)>& body) {
  try {
    run_on_threads(ranks, body);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(ThreadComm, AFailureReachesOtherRanksAsPeerLost) {
  std::atomic<int> lost{0};
  const std::string what = failure_of(4, [&](Communicator& comm) {
    if (comm.rank() == 2) throw usage_error("rank two is unwell");
    try {
      comm.barrier();
    } catch (const PeerLost& error) {
      EXPECT_EQ(error.rank(), 2);
      ++lost;
      throw;
    }
  });
  EXPECT_EQ(what, "rank two is unwell");
  EXPECT_EQ(lost.load(), 3);
}

/// A call without its wait would end quietly.
TEST(ThreadComm, EachCallThatBlocksThrowsThatAPeerIsLost) {
  std::vector<float> floats(3);
  std::vector<double> doubles(3);
  std::vector<int64_t> ints(3);
  const std::vector<int64_t> eights(2, 8);
  const ExchangeLayout layout = ExchangeLayout::packed(eights, eights);
  std::vector<int64_t> received(2);
  using Call = std::function<void(Communicator&)>;
  const std::pair<const char*, Call> calls[] = {
      {"barrier", [](Communicator& comm) { comm.barrier(); }},
      {"broadcast", [&](Communicator& comm) { comm.broadcast(ints.data(), 24, 1); }},
      {"alltoallv",
       [&](Communicator& comm) { comm.alltoallv(ints.data(), received.data(), layout); }},
      {"allreduce", [&](Communicator& comm) { comm.allreduce<float>(floats); }},
      {"allreduce over bf16",
       [&](Communicator& comm) { comm.allreduce<float>(floats, DType::kBFloat16); }},
      {"allreduce of doubles", [&](Communicator& comm) { comm.allreduce<double>(doubles); }},
      {"allreduce of ints", [&](Communicator& comm) { comm.allreduce<int64_t>(ints); }},
      {"allreduce_max", [&](Communicator& comm) { comm.allreduce_max(ints); }},
      {"allgather", [](Communicator& comm) { comm.allgather(5); }},
      {"gatherv",
       [&](Communicator& comm) {
         comm.gatherv<float>(floats, std::vector<int64_t>{3, 3});
       }},
  };
  for (const auto& [name, call] : calls) {
    EXPECT_EQ(failure_of(2,
                         [&name = name, &call = call](Communicator& comm) {
                           if (comm.rank() == 1) throw run_error("gone");
                           EXPECT_THROW(call(comm), PeerLost) << name;
                         }),
              "gone");
  }
  // The second exchange of values of which the first told the number.
  EXPECT_EQ(
      failure_of(2,
                 [&](Communicator& comm) {
                   if (comm.rank() == 0) {
                     EXPECT_THROW(comm.allgather(5), PeerLost);
                     return;
                   }
                   int64_t bytes[] = {0, 4};
                   comm.start_allgatherv(&bytes[1], bytes, eights, layout.receive_offsets).wait();
                   throw run_error("gone");
                 }),
      "gone");
}

TEST(ThreadComm, TheLowestRanksErrorIsThrown) {
  EXPECT_EQ(failure_of(3,
                       [](Communicator& comm) {
                         comm.barrier();
                         if (comm.rank() > 0) throw run_error("rank {}", comm.rank());
                       }),
            "rank 1");
}

TEST(ThreadComm, AFailureBetweenStartAndWaitEndsEveryRank) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(failure_of(4,
                         [&](Communicator& comm) {
                           std::vector<float> data(20000, 1.0f);
                           Pending first = comm.start_allreduce<float>(data);
                           if (comm.rank() == round % 4) throw run_error("in between");
                           std::vector<float> more(20000, 1.0f);
                           Pending second = comm.start_allreduce<float>(more);
                           second.wait();
                         }),
              "in between");
  }
}

TEST(ThreadComm, ARankThatEndsEarlyDoesNotHangTheOthers) {
  // The failing rank made fewer calls than the others and threw later.
  EXPECT_EQ(failure_of(2,
                       [](Communicator& comm) {
                         std::vector<float> data(3, 1.0f);
                         comm.allreduce<float>(data);
                         if (comm.rank() == 0) throw run_error("early");
                         for (int i = 0; i < 3; ++i) comm.allreduce<float>(data);
                       }),
            "early");
}

TEST(ThreadComm, DifferentCallsAreNamed) {
  const std::string what = failure_of(2, [](Communicator& comm) {
    std::vector<float> data(8, 1.0f);
    if (comm.rank() == 0) {
      comm.allreduce<float>(data);
    } else {
      comm.broadcast(data.data(), 32, 0);
    }
  });
  EXPECT_NE(what.find("allreduce"), std::string::npos) << what;
  EXPECT_NE(what.find("broadcast"), std::string::npos) << what;
}

TEST(ThreadComm, DifferentLengthsAreNamed) {
  const std::string what = failure_of(2, [](Communicator& comm) {
    std::vector<float> data(8, 1.0f);
    comm.broadcast(data.data(), comm.rank() == 0 ? 32 : 16, 0);
  });
  EXPECT_EQ(what, "broadcast of rank 1 expects 16 bytes from rank 0, whose broadcast sends 32");
}

TEST(ThreadComm, APeerThatIsLostIsAnErrorIfNoRankHasAnother) {
  const auto lose = [](int rank, int lost) {
    return [=](Communicator& comm) {
      if (comm.rank() >= rank) throw PeerLost(ExitCode::kFailure, lost + comm.rank());
    };
  };
  EXPECT_EQ(failure_of(3, lose(1, 10)), "rank 11 failed or vanished");
  EXPECT_EQ(failure_of(3, lose(0, 10)), "rank 10 failed or vanished");
  EXPECT_EQ(failure_of(3, lose(3, 10)), "none");
}

}  // namespace
}  // namespace dlrm
