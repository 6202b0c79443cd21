#include "dlrm/train/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/partition.h"

#include "error_of.h"
#include "train/checkpoint/checkpoint_files.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kFirst = "/step_000000007";

/// The number of wrong elements after `ranks` ranks have loaded the checkpoint.
int64_t wrong_after_loading(const std::string& checkpoint, int ranks, Cut cut, int salt = 0) {
  std::vector<int64_t> wrong(static_cast<size_t>(ranks));
  run_on_threads(ranks, [&](Communicator& comm) {
    const auto held = held_pieces(comm.rank(), ranks, cut, false);
    load_pieces(comm, checkpoint, pieces_of(held), false);
    wrong[static_cast<size_t>(comm.rank())] = wrong_elements(held, salt);
  });
  int64_t sum = 0;
  for (const int64_t w : wrong) sum += w;
  return sum;
}

/// The error of a rank that saves these pieces.
std::string error_of_saving(Communicator& comm, const std::string& folder,
                            const std::vector<TensorShard>& pieces) {
  return run_error_of(
      [&] { save_checkpoint(comm, Log(comm.rank()), folder, 1, state_at(8), pieces); });
}

class Resharding : public ::testing::TestWithParam<std::tuple<Cut, int, Cut>> {};

TEST_P(Resharding, LoadedValuesAreBitwiseThoseSavedByFourRanks) {
  const auto [saved, ranks, loaded] = GetParam();
  TemporaryFolder folder;
  save_on(4, saved, folder.path(), 7);
  EXPECT_EQ(0, wrong_after_loading(folder.path() + kFirst, ranks, loaded));
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, Resharding,
    ::testing::Combine(::testing::Values(Cut::kRows, Cut::kColumns, Cut::kGrid, Cut::kByTensor),
                       ::testing::Values(1, 2, 3),
                       ::testing::Values(Cut::kRows, Cut::kColumns, Cut::kGrid, Cut::kByTensor)));

TEST(Checkpoint, MoreRanksThanRowsCanLoadIt) {
  TemporaryFolder folder;
  save_on(2, Cut::kGrid, folder.path(), 7);
  EXPECT_EQ(0, wrong_after_loading(folder.path() + kFirst, 9, Cut::kRows));
}

TEST(Checkpoint, EveryRankReadsTheState) {
  TemporaryFolder folder;
  save_on(2, Cut::kRows, folder.path(), 123);
  run_on_threads(3, [&](Communicator& comm) {
    const auto state = open_checkpoint(comm, folder.path("step_000000123"));
    const auto expected = state_at(123);
    EXPECT_EQ(expected.step, state.step);
    EXPECT_EQ(expected.samples, state.samples);
    EXPECT_EQ(expected.epoch, state.epoch);
    EXPECT_EQ(expected.batch, state.batch);
    EXPECT_EQ(expected.seed, state.seed);
    EXPECT_EQ(expected.config, state.config);
    EXPECT_EQ(expected.plan, state.plan);
    EXPECT_EQ("{\"last\": 1}", state.evaluations);
    EXPECT_EQ((std::vector<std::string>{"", "123456789"}), state.tuned_algorithms);
  });
}

TEST(Checkpoint, OfAnotherStepThanItsFolderIsRefused) {
  TemporaryFolder folder;
  save_on(1, Cut::kRows, folder.path(), 7);
  std::filesystem::rename(folder.path("step_000000007"), folder.path("step_000000008"));
  const auto comm = make_self_comm();
  EXPECT_EQ(usage_error_of([&] { open_checkpoint(*comm, folder.path("step_000000008")); }),
            folder.path("step_000000008/index.h5") + ": is of step 7, its folder is not");
  std::filesystem::rename(folder.path("step_000000008"), folder.path("copy"));
  EXPECT_EQ(error_of([&] { open_checkpoint(*comm, folder.path("copy")); }), "");
}

TEST(Checkpoint, WeightsAloneAreLoadedWithoutOptimizerState) {
  TemporaryFolder folder;
  run_on_threads(1, [&](Communicator& comm) {
    std::vector<TensorShard> pieces;
    std::map<std::string, float> loaded;
    const std::map<std::string, bool> paths = {{"/cross/0/bias", false},
                                               {"/cross/0/bias_adam_m", true},
                                               {"/cross/0/w", false},
                                               {"/tables/v/adagrad", true},
                                               {"/tables/v/weight", false}};
    for (const auto& [path, is_state] : paths) {
      TensorShard piece{path, {1}, {0, 1}, {0, 1}, true, {}, {}};
      piece.read = [](int64_t, int64_t, float* out) { *out = 3; };
      piece.write = [&loaded, path](int64_t, int64_t, const float* in) { loaded[path] = *in; };
      piece.is_state = is_state;
      pieces.push_back(piece);
    }
    save_checkpoint(comm, Log(), folder.path(), 1, state_at(7), pieces);
    pieces.push_back(pieces.front());
    pieces.back().path = "/tables/absent/adagrad";
    pieces.back().is_state = true;
    load_pieces(comm, folder.path() + kFirst, pieces, true);
    pieces.pop_back();
    EXPECT_EQ(loaded,
              (std::map<std::string, float>{
                  {"/cross/0/bias", 3.0f}, {"/cross/0/w", 3.0f}, {"/tables/v/weight", 3.0f}}));
    loaded.clear();
    load_pieces(comm, folder.path() + kFirst, pieces, false);
    EXPECT_EQ(loaded.size(), paths.size());
  });
}

TEST(Checkpoint, APieceThatAnotherRankSavesIsStoredOnce) {
  TemporaryFolder folder;
  run_on_threads(3, [&](Communicator& comm) {
    auto pieces = pieces_of(held_pieces(0, 1, Cut::kByTensor, true));
    for (TensorShard& piece : pieces) piece.saves = comm.rank() == 1;
    save_checkpoint(comm, Log(comm.rank()), folder.path(), 2, state_at(7), pieces);
  });
  EXPECT_EQ(0, wrong_after_loading(folder.path() + kFirst, 2, Cut::kRows));
}

TEST(Checkpoint, TheNewestAreKept) {
  TemporaryFolder folder;
  for (const int64_t step : {5, 10, 15, 20}) save_on(2, Cut::kRows, folder.path(), step, 2);
  EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre("step_000000020", "step_000000015"));
}

TEST(Checkpoint, CheckpointsOfLaterStepsAreRemovedAfterARunContinuesFromAnEarlierOne) {
  TemporaryFolder folder;
  for (const int64_t step : {10, 20, 30}) save_on(1, Cut::kRows, folder.path(), step, 3);
  ::testing::internal::CaptureStderr();
  save_on(1, Cut::kRows, folder.path(), 15, 1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre("step_000000015"));
  for (const char* name : {"/step_000000020", "/step_000000030"}) {
    EXPECT_THAT(said, HasSubstr(folder.path() + name + " is of a step not reached again: removed"));
  }
  EXPECT_EQ(said.find("/step_000000010"), std::string::npos) << said;
}

TEST(Checkpoint, OneIsKeptIfNoneIsAskedFor) {
  TemporaryFolder folder;
  for (const int64_t step : {5, 10}) save_on(1, Cut::kRows, folder.path(), step, 0);
  EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre("step_000000010"));
}

TEST(Checkpoint, TheBestIsKeptBesideTheNewest) {
  TemporaryFolder folder;
  const auto mark = [&](int64_t step) {
    run_on_threads(2, [&](Communicator& comm) {
      mark_best_checkpoint(comm, Log(comm.rank()), folder.path(), 1, step);
    });
  };
  save_on(2, Cut::kRows, folder.path(), 10, 1);
  mark(10);
  for (const int64_t step : {20, 30}) save_on(2, Cut::kRows, folder.path(), step, 1);
  EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre("step_000000030", "step_000000010"));
  mark(30);
  EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre("step_000000030"));
  EXPECT_EQ(best_checkpoint(folder.path()), "step_000000030");
  // A run that continued from an earlier step removes it, and the link with it.
  save_on(2, Cut::kRows, folder.path(), 25, 1);
  EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre("step_000000025"));
  EXPECT_FALSE(std::filesystem::is_symlink(folder.path("best")));
}

TEST(Checkpoint, RemovingAllRemovesTheLinkAndLeftovers) {
  TemporaryFolder folder;
  save_on(1, Cut::kRows, folder.path(), 10);
  link_best(folder.path(), "step_000000010");
  std::filesystem::create_directory(folder.path(".tmp_step_000000003"));
  run_on_threads(2, [&](Communicator& comm) { remove_checkpoints(comm, folder.path()); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Checkpoint, RanksMustAgreeOnShapes) {
  TemporaryFolder folder;
  run_on_threads(2, [&](Communicator& comm) {
    auto pieces = pieces_of(held_pieces(comm.rank(), 2, Cut::kRows, true));
    for (TensorShard& piece : pieces) {
      if (comm.rank() == 1 && piece.path == "/tables/C1/weight") piece.shape[0] += 1;
    }
    EXPECT_THAT(error_of_saving(comm, folder.path(), pieces),
                HasSubstr("ranks disagree on the shape of /tables/C1/weight"));
  });
  EXPECT_THAT(list_checkpoints(folder.path()), IsEmpty());
}

TEST(Checkpoint, TensorsHaveOneDimensionOrTwo) {
  TemporaryFolder folder;
  run_on_threads(2, [&](Communicator& comm) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {3, 1, 1}}) {
      auto pieces = pieces_of(held_pieces(comm.rank(), 2, Cut::kRows, true));
      if (comm.rank() == 1) pieces[0].shape = shape;
      EXPECT_THAT(error_of_saving(comm, folder.path(), pieces),
                  HasSubstr(fmt::format("{} has {} dimensions", pieces[0].path, shape.size())));
    }
  });
  EXPECT_THAT(list_checkpoints(folder.path()), IsEmpty());
}

TEST(Checkpoint, HasNoOtherFilesThanItsIndexAndThoseOfItsRanks) {
  TemporaryFolder folder;
  save_on(2, Cut::kRows, folder.path(), 7);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + kFirst)) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("index.h5", "index.crc", "rank_00000.h5",
                                                     "rank_00001.h5"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, AFileThatHasGrownIsDamaged) {
  TemporaryFolder folder;
  save_on(1, Cut::kRows, folder.path(), 7);
  const std::string path = folder.path() + kFirst + "/rank_00000.h5";
  const auto bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes + 1);
  const auto comm = make_self_comm();
  for (const bool verified : {false, true}) {
    EXPECT_EQ(usage_error_of([&] { open_checkpoint(*comm, folder.path() + kFirst, verified); }),
              fmt::format("{}: damaged ({} bytes, should be {})", path, bytes + 1, bytes));
  }
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  TemporaryFolder folder;
  save_on(3, Cut::kRows, folder.path(), 7, 2, 0);
  save_on(2, Cut::kColumns, folder.path(), 7, 2, 1);
  EXPECT_EQ(0, wrong_after_loading(folder.path() + kFirst, 1, Cut::kRows, 1));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + kFirst + "/rank_00002.h5"));
}

TEST(Checkpoint, TheNextSaveRemovesLeftoversOfACrash) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder.path(".tmp_step_000000003/deep"));
  const std::vector<std::string> others{"old.tmp_step_000000003", ".tmp_steps", ".tmp",
                                        "tmp_step_1"};
  for (const std::string& other : others) std::filesystem::create_directory(folder.path(other));
  save_on(1, Cut::kRows, folder.path(), 7);
  EXPECT_FALSE(std::filesystem::exists(folder.path(".tmp_step_000000003")));
  for (const std::string& other : others) {
    EXPECT_TRUE(std::filesystem::exists(folder.path(other))) << other;
  }
}

TEST(Checkpoint, EveryRankThrowsTheErrorOfOne) {
  TemporaryFolder folder;
  save_on(3, Cut::kRows, folder.path(), 7);
  run_on_threads(3, [&](Communicator& comm) {
    auto pieces = pieces_of(held_pieces(comm.rank(), 3, Cut::kRows, true));
    if (comm.rank() == 2) {
      pieces[1].read = [](int64_t, int64_t, float*) { throw std::runtime_error("disk on fire"); };
    }
    EXPECT_EQ(error_of_saving(comm, folder.path(), pieces), "disk on fire");
  });
  EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre("step_000000007"));
  EXPECT_FALSE(std::filesystem::exists(folder.path(".tmp_step_000000008")));
  EXPECT_EQ(0, wrong_after_loading(folder.path() + kFirst, 1, Cut::kRows));
}

TEST(Checkpoint, APieceThatNobodySavedPreventsTheCheckpoint) {
  TemporaryFolder folder;
  run_on_threads(2, [&](Communicator& comm) {
    auto pieces = pieces_of(held_pieces(comm.rank(), 2, Cut::kRows, true));
    if (comm.rank() == 1) pieces.pop_back();
    if (comm.rank() == 1) pieces.pop_back();
    EXPECT_THAT(error_of_saving(comm, folder.path(), pieces), HasSubstr("/tables/C10/adam_m"));
  });
  EXPECT_THAT(list_checkpoints(folder.path()), IsEmpty());
}

TEST(Checkpoint, AFolderThatCannotBeMadeIsAUsageErrorBeforeTraining) {
  TemporaryFolder folder;
  write_file(folder.path("taken"), "");
  run_on_threads(2, [&](Communicator& comm) {
    EXPECT_THAT(usage_error_of([&] { check_checkpoint_folder(comm, folder.path("taken/ckpt")); }),
                HasSubstr("checkpoint.directory"));
    check_checkpoint_folder(comm, folder.path("new/ckpt"));
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("new/ckpt")));
}

TEST(Checkpoint, APieceLargerThanAChunkIsReadAndWrittenInParts) {
  TemporaryFolder folder;
  const int64_t rows = 1'500'001;
  int64_t most = 0;
  run_on_threads(1, [&](Communicator& comm) {
    TensorShard piece{"/tables/big/weight", {rows, 5}, {0, rows}, {0, 5}, true, {}, {}};
    piece.read = [&](int64_t first, int64_t count, float* out) {
      most = std::max(most, count);
      for (int64_t i = 0; i < count * 5; ++i) out[i] = static_cast<float>(first * 5 + i);
    };
    save_checkpoint(comm, Log(), folder.path(), 1, state_at(7), {piece});
    int64_t next = 0;
    int64_t wrong = 0;
    piece.columns = {1, 3};
    piece.write = [&](int64_t first, int64_t count, const float* in) {
      EXPECT_EQ(next, first);
      most = std::max(most, count);
      next = first + count;
      for (int64_t i = 0; i < count * 2; ++i) {
        const auto expected = static_cast<float>((first + i / 2) * 5 + 1 + i % 2);
        if (in[i] != expected) ++wrong;
      }
    };
    load_pieces(comm, folder.path() + kFirst, {piece}, false);
    EXPECT_EQ(rows, next);
    EXPECT_EQ(0, wrong);
  });
  EXPECT_LT(most * 8, int64_t{20} << 20);
}

TEST(Checkpoint, APieceLargerThanAChunkIsReadFromSeveralFiles) {
  TemporaryFolder folder;
  const int64_t rows = 5'000'001;
  const auto piece_of = [&](Range part) {
    TensorShard piece{"/tables/big/adagrad", {rows}, part, {0, 1}, true, {}, {}};
    piece.read = [part](int64_t first, int64_t count, float* out) {
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(part.begin + first + i);
    };
    return piece;
  };
  run_on_threads(3, [&](Communicator& comm) {
    save_checkpoint(comm, Log(comm.rank()), folder.path(), 1, state_at(7),
                    {piece_of(part_of(rows, comm.rank(), 3))});
  });
  int64_t wrong = 0, next = 0;
  TensorShard whole = piece_of({0, rows});
  whole.write = [&](int64_t first, int64_t count, const float* in) {
    EXPECT_EQ(first, next);
    next += count;
    for (int64_t i = 0; i < count; ++i) wrong += in[i] != static_cast<float>(first + i);
  };
  const auto comm = make_self_comm();
  load_pieces(*comm, folder.path() + kFirst, {whole}, false);
  EXPECT_EQ(next, rows);
  EXPECT_EQ(wrong, 0);
}

TEST(Checkpoint, ARowLongerThanAChunkIsReadAlone) {
  TemporaryFolder folder;
  const auto columns = static_cast<int64_t>(kCheckpointChunk / sizeof(float)) + 3;
  run_on_threads(1, [&](Communicator& comm) {
    TensorShard piece{"/tables/long/weight", {2, columns}, {0, 2}, {0, columns}, true, {}, {}};
    piece.read = [&](int64_t first, int64_t count, float* out) {
      EXPECT_EQ(count, 1);
      for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<float>(first * 5 + i % 4096);
    };
    save_checkpoint(comm, Log(), folder.path(), 1, state_at(7), {piece});
    int64_t rows = 0, wrong = 0;
    const auto load = [&](int64_t begin) {
      piece.columns = {begin, columns};
      piece.write = [&](int64_t first, int64_t count, const float* in) {
        EXPECT_EQ(first, rows);
        rows += count;
        for (int64_t i = 0; i < count * (columns - begin); ++i) {
          const int64_t row = first + i / (columns - begin);
          const int64_t column = begin + i % (columns - begin);
          wrong += in[i] != static_cast<float>(row * 5 + column % 4096);
        }
      };
      load_pieces(comm, folder.path() + kFirst, {piece}, false);
      EXPECT_EQ(rows, 2);
      EXPECT_EQ(wrong, 0);
      rows = 0;
    };
    load(0);
    load(columns - 5);
  });
}

TEST(Checkpoint, RemovingLeavesOtherFilesAlone) {
  TemporaryFolder folder;
  save_on(1, Cut::kRows, folder.path(), 7);
  write_file(folder.path("notes.txt"), "mine");
  run_on_threads(2, [&](Communicator& comm) {
    EXPECT_TRUE(has_checkpoints(comm, folder.path()));
    remove_checkpoints(comm, folder.path());
    EXPECT_FALSE(has_checkpoints(comm, folder.path()));
  });
  EXPECT_TRUE(std::filesystem::exists(folder.path("notes.txt")));
}

}  // namespace
}  // namespace dlrm::testing
