// Where a run starts, and what becomes of the checkpoints in its own folder.
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/log.h"

#include "train/checkpoint_tensors.h"
#include "train/run/run_setup.h"
#include "train/small_run.h"

namespace dlrm::testing {
namespace {

void save_at(const std::string& directory, const RunConfig& config, int64_t step) {
  const auto comm = make_self_comm();
  const auto held = held_pieces(0, 1, Cut::kRows, true);
  CheckpointState state = state_at(step);
  state.config = to_yaml(config);
  save_checkpoint(*comm, Log(0), directory, 2, state, pieces_of(held));
}

struct Case {
  const char* resume = nullptr;  ///< --resume=, below the folder; "": without a folder
  const char* init_from = "";
  bool overwrite = false;
  const char* own = "ckpt";  ///< checkpoint.directory
  const char* starts_at;     ///< null: refused
  bool resumed = false, clears = false;
};

TEST(FindStart, OnlyARunThatContinuesItsOwnCheckpointsKeepsThem) {
  const TemporaryFolder folder;
  RunOptions options;
  options.config = odd_model();
  save_at(folder.path("ckpt"), options.config, 5);
  save_at(folder.path("other"), options.config, 7);
  std::filesystem::create_directory_symlink(folder.path("ckpt"), folder.path("link"));
  const std::string five = "ckpt/step_000000005", seven = "other/step_000000007";
  const Case cases[] = {
      {.starts_at = nullptr},
      {.overwrite = true, .starts_at = "", .clears = true},
      {.own = "new", .starts_at = ""},
      {.resume = "", .starts_at = five.c_str(), .resumed = true},
      {.resume = "", .overwrite = true, .starts_at = five.c_str(), .resumed = true},
      {.resume = "ckpt", .starts_at = five.c_str(), .resumed = true},
      {.resume = "ckpt", .own = "link", .starts_at = five.c_str(), .resumed = true},
      {.resume = "ckpt", .own = "new", .starts_at = five.c_str(), .resumed = true},
      {.resume = "other", .starts_at = nullptr},
      {.resume = "other",
       .overwrite = true,
       .starts_at = seven.c_str(),
       .resumed = true,
       .clears = true},
      {.resume = "none", .starts_at = nullptr},
      {.resume = "none", .overwrite = true, .starts_at = "", .clears = true},
      {.init_from = "ckpt", .starts_at = nullptr},
      {.init_from = "ckpt", .overwrite = true, .starts_at = five.c_str(), .clears = true},
      {.init_from = "other", .own = "new", .starts_at = seven.c_str()},
      {.resume = "", .init_from = "other", .starts_at = five.c_str(), .resumed = true},
      {.resume = "", .init_from = "other", .own = "new", .starts_at = seven.c_str()},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(&c - cases);
    std::filesystem::remove_all(folder.path("new"));
    options.resume.reset();
    if (c.resume) options.resume = *c.resume ? folder.path(c.resume) : "";
    options.init_from = *c.init_from ? folder.path(c.init_from) : "";
    options.overwrite = c.overwrite;
    options.config.checkpoint.directory = folder.path(c.own);
    const auto comm = make_self_comm();
    try {
      const StartingPoint start = find_start(*comm, Log(1), options);
      ASSERT_NE(c.starts_at, nullptr) << start.path;
      EXPECT_EQ(start.path, *c.starts_at ? folder.path(c.starts_at) : "");
      EXPECT_EQ(start.resumed, c.resumed);
      EXPECT_EQ(start.clears_folder, c.clears);
    } catch (const Error& error) {
      EXPECT_EQ(c.starts_at, nullptr);
      EXPECT_EQ(error.what(), folder.path("ckpt") +
                                  " holds checkpoints of an earlier run: --resume continues it, "
                                  "--overwrite removes them, checkpoint.directory names another "
                                  "place");
    }
  }
}

}  // namespace
}  // namespace dlrm::testing
