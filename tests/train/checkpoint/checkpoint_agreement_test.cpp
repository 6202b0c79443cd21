#include "train/checkpoint/checkpoint_agreement.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"

namespace dlrm {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Texts = std::vector<std::string>;

/// What each of three ranks returns.
template <class Call>
Texts of_three(const Call& call) {
  Texts texts(3);
  run_on_threads(3,
                 [&](Communicator& comm) { texts[static_cast<size_t>(comm.rank())] = call(comm); });
  return texts;
}

template <class Call>
std::string outcome(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  return "done";
}

TEST(Agree, EveryRankHasTheErrorOfTheFirstThatFails) {
  const auto agreed = [](const std::vector<std::function<void()>>& works) {
    return of_three([&](Communicator& comm) {
      const std::string before =
          outcome([&] { agree(comm, works[static_cast<size_t>(comm.rank())]); });
      comm.barrier();
      return before;
    });
  };
  const auto good = [] {};
  const auto bad_config = [] { throw usage_error("a key"); };
  const auto bad_disk = [] { throw run_error("a disk"); };
  const auto library = [] { throw std::runtime_error(""); };
  EXPECT_THAT(agreed({good, good, good}), Each("done"));
  EXPECT_THAT(agreed({bad_config, bad_disk, good}), Each("2: a key"));
  EXPECT_THAT(agreed({good, bad_disk, bad_config}), Each("3: a disk"));
  EXPECT_THAT(agreed({good, good, bad_config}), Each("2: a key"));
  EXPECT_THAT(agreed({good, library, bad_config}), Each("3: "));
}

TEST(Agree, OnRootRunsThereAlone) {
  EXPECT_THAT(of_three([](Communicator& comm) {
                std::string ran = "no";
                agree_on_root(comm, [&] { ran = "yes"; });
                return ran;
              }),
              ElementsAre("yes", "no", "no"));
  EXPECT_THAT(of_three([](Communicator& comm) {
                return outcome([&] { agree_on_root(comm, [] { throw usage_error("a key"); }); });
              }),
              Each("2: a key"));
}

TEST(Texts, OfRankZeroReachAll) {
  for (const std::string& text : Texts{"", "a", std::string(100'000, 'x')}) {
    EXPECT_THAT(of_three([&](Communicator& comm) {
                  return broadcast_text(comm, comm.rank() == 0 ? text : "of another rank");
                }),
                Each(text));
  }
}

TEST(Texts, OfAllRanksAreInTheirOrder) {
  const Texts own = {"first", "", "the third"};
  run_on_threads(3, [&](Communicator& comm) {
    EXPECT_EQ(gather_texts(comm, own[static_cast<size_t>(comm.rank())]), own);
  });
}

TEST(RankAndHost, AreNamed) {
  char host[256] = "";
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  const Texts names = of_three([](Communicator& comm) { return rank_and_host(comm); });
  EXPECT_EQ(names[2], fmt::format("rank 2 on host {}", host));
}

}  // namespace
}  // namespace dlrm
