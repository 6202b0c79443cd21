#include "serve/model_watch.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "saved_model.h"
#include "train/checkpoint_tensors.h"
#include "train/small_run.h"

namespace dlrm::serve {
namespace {

namespace fs = std::filesystem;

/// Waits until `done`, at most for a minute.
template <class Done>
bool comes(const Done& done) {
  for (int i = 0; i < 6000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done();
}

class Watching : public ::testing::Test {
 protected:
  /// A folder that looks like a checkpoint to the watch.
  void add(const std::string& name, int seconds = 0) {
    fs::create_directories(folder_.path(name));
    std::ofstream(folder_.path(name + "/index.crc")) << "x";
    fs::last_write_time(folder_.path(name + "/index.crc"),
                        fs::file_time_type(std::chrono::seconds(1000000 + seconds)));
  }
  std::string at(const std::string& name) const {
    return fs::canonical(folder_.path(name)).string();
  }
  dlrm::testing::TemporaryFolder folder_;
};

TEST_F(Watching, FindsTheNewestOnce) {
  add("step_000000003");
  CheckpointWatch watch(folder_.path(), folder_.path("step_000000003"));
  EXPECT_EQ(watch.newer(), "");
  add("step_000000010");
  add("step_000000007");
  add(".tmp_step_000000012");
  add("step_");
  add("step_00000000x");
  EXPECT_EQ(watch.newer(), at("step_000000010"));
  EXPECT_EQ(watch.newer(), "");
  // A run that was resumed from an earlier checkpoint removes later ones.
  fs::remove_all(folder_.path("step_000000010"));
  EXPECT_EQ(watch.newer(), at("step_000000007"));
  add("step_000000007", 5);  // saved again
  EXPECT_EQ(watch.newer(), at("step_000000007"));
  fs::remove_all(folder_.path());
  EXPECT_EQ(watch.newer(), "");
}

TEST_F(Watching, ACheckpointThatIsBackIsTheSame) {
  add("step_000000003");
  CheckpointWatch watch(folder_.path(), folder_.path("step_000000003"));
  // A file system that cannot exchange folders renames the old one for a moment.
  fs::rename(folder_.path("step_000000003"), folder_.path(".tmp_step_000000003.old"));
  EXPECT_EQ(watch.newer(), "");
  fs::rename(folder_.path(".tmp_step_000000003.old"), folder_.path("step_000000003"));
  EXPECT_EQ(watch.newer(), "");
}

TEST_F(Watching, OneCheckpointStays) {
  add("step_000000003");
  CheckpointWatch watch(folder_.path("step_000000003"), folder_.path("step_000000003"));
  add("step_000000010");
  EXPECT_EQ(watch.newer(), "");
}

TEST_F(Watching, ALinkIsFollowed) {
  add("step_000000003");
  add("step_000000010");
  fs::create_directory_symlink("step_000000003", folder_.path("best"));
  CheckpointWatch watch(folder_.path("best"), folder_.path("step_000000003"));
  EXPECT_EQ(watch.newer(), "");
  fs::remove(folder_.path("best"));
  fs::create_directory_symlink("step_000000010", folder_.path("best"));
  EXPECT_EQ(watch.newer(), at("step_000000010"));
}

class Reloading : public ::testing::Test {
 protected:
  void SetUp() override {
    save_model(odd_model(), folder_.path(), 3);
    const std::string first = folder_of(folder_.path(), 3);
    batcher_.emplace(std::make_shared<TrainedModel>(first, LoadOptions{}), 8,
                     std::chrono::microseconds(0), counters_);
    reloader_.emplace(CheckpointWatch(folder_.path(), first), LoadOptions{},
                      std::chrono::duration<double>(0.01), *batcher_, counters_);
  }
  int64_t step() const { return batcher_->model()->step(); }
  bool counted(const std::string& line) const {
    return counters_.text({}).find("\ndlrm_infer_" + line + "\n") != std::string::npos;
  }

  dlrm::testing::TemporaryFolder folder_;
  Counters counters_;
  std::optional<Batcher> batcher_;
  std::optional<Reloader> reloader_;
};

TEST_F(Reloading, ANewerCheckpointIsUsed) {
  save_model(odd_model(), folder_.path(), 6);
  EXPECT_TRUE(comes([&] { return step() == 6; }));
  EXPECT_TRUE(comes([&] { return counted("reloads_total 1"); }));
  EXPECT_TRUE(counted("failed_reloads_total 0"));
}

TEST_F(Reloading, ADamagedOneIsReportedOnceAndTheNextIsUsed) {
  // Damaged before it appears.
  const std::string elsewhere = folder_.path("elsewhere");
  save_model(odd_model(), elsewhere, 5);
  fs::resize_file(folder_of(elsewhere, 5) + "/rank_00000.h5", 1000);
  fs::rename(folder_of(elsewhere, 5), folder_of(folder_.path(), 5));
  EXPECT_TRUE(comes([&] { return counted("failed_reloads_total 1"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(counted("failed_reloads_total 1"));
  EXPECT_EQ(step(), 3);
  save_model(odd_model(), folder_.path(), 6);
  EXPECT_TRUE(comes([&] { return step() == 6; }));
}

TEST_F(Reloading, OtherFeaturesAreRefused) {
  RunConfig config = odd_model();
  config.model.tables[3].rows += 1;
  save_model(config, folder_.path(), 6);
  EXPECT_TRUE(comes([&] { return counted("failed_reloads_total 1"); }));
  EXPECT_EQ(step(), 3);
}

}  // namespace
}  // namespace dlrm::serve
