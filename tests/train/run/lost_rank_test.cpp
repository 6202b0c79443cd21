// A rank that fails in the middle of a call on a checkpoint. That is no damage and no full disk:
// the others end.
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/checkpoint.h"

#include "changed_exchanges.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

namespace fs = std::filesystem;

/// What a rank throws that fails.
struct Gone {};

using Call = std::function<void(Communicator&)>;

/// Lets rank 1 fail in each of its exchanges of `call` in turn. Rank 0 must know that it was that.
/// `after` is called in between. Returns the number of exchanges. One that is missing is one in
/// which ranks agree or wait for each other.
int fail_in_each(
    const Call& call, const std::function<void()>& after = [] {}) {
  for (int at = 0;; ++at) {
    bool failed = false;
    std::string end = "done";
    try {
      run_on_threads(2, [&](Communicator& comm) {
        if (comm.rank() == 1) {
          int left = at;
          ChangedExchanges failing(comm, [&](Communicator& inner, Exchange exchange, int number) {
            if (number == 0 && left-- == 0) throw Gone();
            return inner.start_exchange(std::move(exchange));
          });
          try {
            call(failing);
          } catch (const Gone&) {
          }
          failed = left < 0;
          if (failed) throw run_error("gone");
          return;
        }
        try {
          call(comm);
        } catch (const PeerLost&) {
          end = "lost";
          throw;
        } catch (const Error& error) {
          end = error.what();
        }
      });
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "gone");
    }
    if (!failed) {
      EXPECT_EQ(end, "done");
      return at;
    }
    EXPECT_EQ(end, "lost") << "exchange " << at;
    after();
  }
}

class LostRank : public ::testing::Test {
 protected:
  LostRank() {
    save_on(2, Cut::kRows, folder_.path(), 10);
    save_on(2, Cut::kRows, folder_.path(), 20);
  }
  std::string newer() const { return folder_.path("step_000000020"); }

  TemporaryFolder folder_;
};

TEST_F(LostRank, DuringASearchIsNoDamage) {
  fs::remove(newer() + "/rank_00001.h5");
  EXPECT_EQ(fail_in_each([&](Communicator& comm) { find_checkpoint(comm, folder_.path()); }), 65);
  const std::string older = folder_.path("step_000000010");
  EXPECT_EQ(fail_in_each([&](Communicator& comm) { find_checkpoint(comm, older); }), 33);
  EXPECT_EQ(fail_in_each([&](Communicator& comm) { open_checkpoint(comm, older); }), 28);
  EXPECT_EQ(fail_in_each([&](Communicator& comm) { has_checkpoints(comm, older); }), 1);
}

TEST_F(LostRank, WhileACheckpointIsLoadedEndsTheOthers) {
  const auto load = [&](Communicator& comm) {
    const auto held = held_pieces(comm.rank(), 2, Cut::kRows, false);
    load_pieces(comm, newer(), pieces_of(held), false);
  };
  EXPECT_EQ(fail_in_each(load), 30);
}

TEST_F(LostRank, WhileACheckpointIsSavedLeavesItsFolderToTheNextRun) {
  int left = 0, earlier = 0, tried = 0;
  const auto save = [&](Communicator& comm) {
    save_checkpoint(comm, Log(comm.rank()), folder_.path(), 2, state_at(30),
                    pieces_of(held_pieces(comm.rank(), 2, Cut::kRows, true)));
  };
  const int exchanges = fail_in_each(save, [&] {
    ++tried;
    // The rank that failed may still write there.
    left += fs::exists(folder_.path(".tmp_step_000000030")) ? 1 : 0;
    earlier += fs::exists(newer()) ? 1 : 0;
  });
  EXPECT_EQ(exchanges, 23);
  EXPECT_EQ(tried, exchanges);
  EXPECT_EQ(earlier, exchanges);
  EXPECT_GT(left, exchanges / 2);
}

TEST_F(LostRank, WhileAFolderIsCheckedIsNoWrongKey) {
  int left = 0;
  const std::string folder = folder_.path("new");
  const int exchanges =
      fail_in_each([&](Communicator& comm) { check_checkpoint_folder(comm, folder); },
                   [&] { left += fs::exists(folder + "/.tmp_step_check") ? 1 : 0; });
  EXPECT_EQ(exchanges, 13);
  EXPECT_GT(left, exchanges / 2);
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(LostRank, WhileCheckpointsAreMarkedOrRemovedEndsTheOthers) {
  const auto mark = [&](Communicator& comm) {
    mark_best_checkpoint(comm, Log(comm.rank()), folder_.path(), 2, 20);
  };
  EXPECT_EQ(fail_in_each(mark), 2);
  const auto remove = [&](Communicator& comm) { remove_checkpoints(comm, folder_.path()); };
  EXPECT_EQ(fail_in_each(remove), 2);
}

}  // namespace
}  // namespace dlrm::testing
