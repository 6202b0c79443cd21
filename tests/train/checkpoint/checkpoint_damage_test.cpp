#include <csignal>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"
#include "dlrm/core/random.h"
#include "dlrm/train/checkpoint.h"

#include "error_of.h"
#include "train/checkpoint/checkpoint_files.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The checkpoint that three ranks find, or the error. It must be the same on each.
std::string found(const std::string& path) {
  std::vector<std::string> answers(3);
  run_on_threads(3, [&](Communicator& comm) {
    std::string& answer = answers[static_cast<size_t>(comm.rank())];
    try {
      answer = find_checkpoint(comm, path).value_or("none");
    } catch (const Error& error) {
      answer = fmt::format("exit {}: {}", static_cast<int>(error.code()), error.what());
    }
  });
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
  return answers[0];
}

class TwoCheckpoints : public ::testing::Test {
 protected:
  TwoCheckpoints() {
    save_on(2, Cut::kGrid, folder_.path(), 10);
    save_on(2, Cut::kGrid, folder_.path(), 20);
  }
  std::string older() const { return folder_.path("step_000000010"); }
  std::string newer() const { return folder_.path("step_000000020"); }

  TemporaryFolder folder_;
};

TEST_F(TwoCheckpoints, TheNewestIsFound) { EXPECT_EQ(newer(), found(folder_.path())); }

TEST_F(TwoCheckpoints, ACheckpointIsFoundByItsName) {
  EXPECT_EQ(older(), found(older()));
  EXPECT_EQ(older() + "/", found(older() + "/"));
}

TEST(FindCheckpoint, AnEmptyOrMissingFolderHasNone) {
  TemporaryFolder folder;
  EXPECT_EQ("none", found(folder.path()));
  EXPECT_EQ("none", found(folder.path("missing")));
}

TEST(FindCheckpoint, AMissingNamedCheckpointIsAnError) {
  TemporaryFolder folder;
  EXPECT_THAT(found(folder.path("step_000000010")), HasSubstr("exit 2"));
}

TEST(FindCheckpoint, OtherNamesAreNotTakenForCheckpoints) {
  TemporaryFolder folder;
  for (const char* name : {"step_1", "step_00000001x", "step_", "xstep_000000001"}) {
    fs::create_directory(folder.path(name));
  }
  EXPECT_EQ("none", found(folder.path()));
}

TEST_F(TwoCheckpoints, TheOlderIsFoundIfAFileOfTheNewestIsMissing) {
  for (const char* file : {"rank_00000.h5", "rank_00001.h5", "index.h5", "index.crc"}) {
    const std::string path = newer() + "/" + file;
    fs::rename(path, folder_.path("aside"));
    EXPECT_EQ(older(), found(folder_.path())) << file;
    EXPECT_THAT(found(newer()), AllOf(HasSubstr("exit 2"), HasSubstr(file)));
    fs::rename(folder_.path("aside"), path);
  }
  EXPECT_EQ(newer(), found(folder_.path()));
}

TEST_F(TwoCheckpoints, TheOlderIsFoundIfAFileOfTheNewestIsTruncated) {
  for (const char* file : {"rank_00000.h5", "rank_00001.h5", "index.h5", "index.crc"}) {
    const std::string path = newer() + "/" + file;
    fs::copy_file(path, folder_.path("aside"));
    for (const auto size : {fs::file_size(path) - 1, uintmax_t{0}}) {
      fs::resize_file(path, size);
      EXPECT_EQ(older(), found(folder_.path())) << file << " of " << size;
    }
    fs::rename(folder_.path("aside"), path);
  }
}

TEST_F(TwoCheckpoints, EveryFlippedBitOfTheNewestIsNoticed) {
  uint32_t draw = 0;
  for (const char* name : {"rank_00000.h5", "rank_00001.h5", "index.h5", "index.crc"}) {
    File file(newer() + "/" + name, File::Mode::kReadWrite);
    for (int i = 0; i < 40; ++i) {
      const auto words = philox(7, {draw++, 0, 0, 0});
      const auto at = static_cast<int64_t>(words[0] % static_cast<uint64_t>(file.size()));
      char byte = 0;
      file.read(&byte, 1, at);
      const char flipped = static_cast<char>(byte ^ (1 << (words[1] % 8)));
      file.write(&flipped, 1, at);
      const auto comm = make_self_comm();
      EXPECT_THROW(open_checkpoint(*comm, newer()), Error) << name << " at " << at;
      file.write(&byte, 1, at);
    }
  }
  EXPECT_EQ(newer(), found(folder_.path()));
}

TEST_F(TwoCheckpoints, DamageOfBothIsAnErrorNotAFreshStart) {
  fs::remove(newer() + "/index.h5");
  fs::remove(older() + "/rank_00000.h5");
  EXPECT_THAT(found(folder_.path()),
              AllOf(HasSubstr("exit 2: " + folder_.path() + ": no checkpoint in it is good: "),
                    HasSubstr(newer() + "/index.h5")));
}

TEST_F(TwoCheckpoints, ARankThatDoesNotSeeTheFolderIsNamed) {
  run_on_threads(3, [&](Communicator& comm) {
    const std::string path = comm.rank() == 2 ? folder_.path("elsewhere") : folder_.path();
    EXPECT_THAT(usage_error_of([&] { find_checkpoint(comm, path); }), HasSubstr("rank 2 on host "));
  });
}

TEST_F(TwoCheckpoints, ARankThatSeesAnotherFolderOfThatNameIsNamed) {
  TemporaryFolder other;
  save_on(1, Cut::kRows, other.path(), 20);
  run_on_threads(3, [&](Communicator& comm) {
    EXPECT_THAT(
        error_of([&] { find_checkpoint(comm, comm.rank() == 1 ? other.path() : folder_.path()); }),
        HasSubstr("rank 1 on host "));
  });
}

TEST_F(TwoCheckpoints, ARankThatFailsMeanwhileIsNoDamage) {
  const auto open = [&](Communicator& comm) {
    if (comm.rank() == 1) throw run_error("rank 1 is unwell");
    EXPECT_THROW(open_checkpoint(comm, newer()), PeerLost);
  };
  EXPECT_THROW(run_on_threads(2, open), Error);
}

TEST_F(TwoCheckpoints, AFolderThatRankZeroAloneDoesNotSeeIsNoFreshStart) {
  run_on_threads(2, [&](Communicator& comm) {
    const std::string error = usage_error_of(
        [&] { find_checkpoint(comm, comm.rank() == 0 ? folder_.path("absent") : folder_.path()); });
    EXPECT_THAT(error, HasSubstr("rank 1 on host "));
    EXPECT_THAT(error, HasSubstr("sees this folder, rank 0 does not"));
  });
}

// The older one, which all ranks see alike, is not taken instead.
TEST_F(TwoCheckpoints, ARankThatSeesAnotherNewestOneIsNamed) {
  TemporaryFolder other;
  std::filesystem::copy(
      folder_.path(), other.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  save_on(1, Cut::kRows, other.path(), 20, 2, 9);
  run_on_threads(3, [&](Communicator& comm) {
    EXPECT_THAT(usage_error_of([&] {
                  find_checkpoint(comm, comm.rank() == 1 ? other.path() : folder_.path());
                }),
                HasSubstr("rank 1 on host "));
  });
}

/// Rank 1 checks `other` in place of `folder`.
void expect_rank_1_is_named(const std::string& folder, const std::string& other) {
  run_on_threads(2, [&](Communicator& comm) {
    EXPECT_THAT(
        usage_error_of([&] { check_checkpoint_folder(comm, comm.rank() == 1 ? other : folder); }),
        HasSubstr("rank 1 on host "));
  });
  EXPECT_FALSE(fs::exists(folder + "/.tmp_step_check"));
}

TEST_F(TwoCheckpoints, ARankThatDoesNotSeeTheFolderIsNamedBeforeSaving) {
  const TemporaryFolder other;
  expect_rank_1_is_named(folder_.path(), other.path());
}

/// Its folder has what a check that was killed left there.
TEST_F(TwoCheckpoints, ARankThatSeesAnotherFolderIsNamedBeforeSaving) {
  const TemporaryFolder other;
  fs::create_directory(other.path(".tmp_step_check"));
  write_file(other.path(".tmp_step_check/token"), "000000000000000000000000\n");
  expect_rank_1_is_named(folder_.path(), other.path());
}

int status_of(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(TwoCheckpoints, AFullDiskLeavesThemUnchanged) {
  const int status = status_of([&] {
    // Limits the size of files of this process, as a full disk would.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto comm = make_self_comm();
    try {
      save_checkpoint(*comm, Log(), folder_.path(), 1, state_at(30),
                      pieces_of(held_pieces(0, 1, Cut::kRows, true)));
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
  });
  EXPECT_EQ(3, WEXITSTATUS(status));
  EXPECT_EQ(newer(), found(folder_.path()));
  EXPECT_EQ(older(), found(older()));
  EXPECT_FALSE(fs::exists(folder_.path(".tmp_step_000000030")));
}

TEST_F(TwoCheckpoints, AStepStaysAsItWasIfTheIndexThatReplacesItCannotBeWritten) {
  // The index holds the config and is larger than the tensors.
  const auto largest = std::max(fs::file_size(newer() + "/rank_00000.h5"),
                                fs::file_size(newer() + "/rank_00001.h5"));
  ASSERT_GT(fs::file_size(newer() + "/index.h5"), 3 * largest);
  const int status = status_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{3 * largest, 3 * largest};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto comm = make_self_comm();
    try {
      save_checkpoint(*comm, Log(), folder_.path(), 2, state_at(20),
                      pieces_of(held_pieces(0, 1, Cut::kRows, true, 1)));
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
  });
  EXPECT_EQ(3, WEXITSTATUS(status));
  EXPECT_EQ(newer(), found(folder_.path()));
  const auto comm = make_self_comm();
  const auto held = held_pieces(0, 1, Cut::kRows, false);
  load_pieces(*comm, newer(), pieces_of(held), false);
  EXPECT_EQ(0, wrong_elements(held));
}

/// Saves repeatedly, with different values in each step, until it is killed.
[[noreturn]] void save_for_ever(const std::string& directory, int64_t first) {
  const auto comm = make_self_comm();
  for (int64_t step = first;; ++step) {
    const auto held = held_pieces(0, 1, Cut::kGrid, true, static_cast<int>(step));
    save_checkpoint(*comm, Log(1), directory, 1, state_at(step), pieces_of(held));
  }
}

TEST(Checkpoint, AfterAKillAtAnyTimeAGoodCheckpointHoldsItsOwnValues) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  int64_t last = 0;
  save_on(1, Cut::kRows, folder.path(), last);
  // On a slow machine the first rounds may end before anything is saved.
  for (uint32_t round = 0; round < 30 || (last == 0 && round < 100); ++round) {
    const pid_t child = fork();
    if (child == 0) save_for_ever(folder.path(), last + 1);
    usleep(2000 + philox(5, {round, 0, 0, 0})[0] % (round < 30 ? 50'000 : 500'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);

    const auto newest = find_checkpoint(*comm, folder.path());
    ASSERT_TRUE(newest.has_value());
    const int64_t step = open_checkpoint(*comm, *newest).step;
    EXPECT_EQ(folder.path(step_folder_name(step)), *newest);
    EXPECT_GE(step, last);
    const auto held = held_pieces(0, 1, Cut::kRows, false);
    load_pieces(*comm, *newest, pieces_of(held), false);
    ASSERT_EQ(0, wrong_elements(held, static_cast<int>(step)));
    last = step;
  }
  EXPECT_GT(last, 0);
}

}  // namespace
}  // namespace dlrm::testing
