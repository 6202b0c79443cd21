#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "dlrm/core/file.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "data/dataset_structure.h"
#include "data/mapped_file.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A file that is cut short after it was opened.
class CutFile : public ::testing::Test {
 protected:
  CutFile() {
    data_.samples = 40000;
    data_.write(path_, data_.samples);
  }

  std::unique_ptr<BatchSource> open(bool verify) const {
    RunConfig config = data_.config(path_, 5000);
    config.data.verify = verify;
    return make_batch_source(config, Split::kTrain, 0, 1);
  }

  /// The text of the run_error that loading one of the epoch's batches ends with.
  static std::string failure(const BatchSource& source) {
    Batch batch;
    return run_error_of([&] {
      for (int64_t t = 0; t < source.plan().batches_per_epoch(); ++t) source.load(t, batch);
    });
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "a.h5";
  SmallDataset data_;
};

TEST_F(CutFile, IsARunErrorThatNamesItWhateverIsLeft) {
  const auto whole = static_cast<int64_t>(std::filesystem::file_size(path_));
  for (const bool verify : {true, false}) {
    // The last leaves all pages, one of them with fewer bytes.
    for (const int64_t left : {int64_t{0}, int64_t{5000}, whole / 2, whole - 1}) {
      const auto source = open(verify);
      Batch batch;
      source->load(0, batch);
      std::filesystem::resize_file(path_, static_cast<uintmax_t>(left));
      EXPECT_THAT(failure(*source), AllOf(HasSubstr(path_), HasSubstr("cut short"))) << left;
      data_.write(path_, data_.samples);
    }
  }
}

TEST_F(CutFile, IsReportedByPrefetchingWorkers) {
  const auto source = open(true);
  std::filesystem::resize_file(path_, 8192);
  Prefetcher prefetcher(*source, 0, 8, 3, 4);
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST_F(CutFile, EachOfSeveralOpenFilesIsGuarded) {
  open(true);  // leaves guards that are free again
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<BatchSource>> sources;
  for (const char* name : {"b.h5", "c.h5", "d.h5"}) {
    paths.push_back(folder_ / name);
    data_.write(paths.back(), data_.samples);
    sources.push_back(make_batch_source(data_.config(paths.back(), 5000), Split::kTrain, 0, 1));
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    std::filesystem::resize_file(paths[i], 5000);
    EXPECT_THAT(failure(*sources[i]), AllOf(HasSubstr(paths[i]), HasSubstr("cut short")));
  }
}

TEST_F(CutFile, AFileThatIsReplacedOrRemovedCanStillBeRead) {
  const auto source = open(true);
  SmallDataset other = data_;
  other.samples = 3;
  other.write(path_);
  Batch batch;
  source->load(1, batch);
  std::filesystem::remove(path_);
  source->load(2, batch);
  EXPECT_EQ(batch.size(), 5000);
}

/// AddressSanitizer turns the signal into an exit code.
bool ended_by_sigbus(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) != 0;
}

TEST_F(CutFile, ASigbusOfAnotherCauseStillEndsTheProcess) {
  const auto source = open(true);
  EXPECT_EXIT(std::raise(SIGBUS), ended_by_sigbus, "");
}

/// The handler that a program had before is called for what is not ours. Each child installs it
/// before ours.
TEST_F(CutFile, AnEarlierHandlerIsCalledForOtherCauses) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer calls handlers later";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto raise_with = [&](bool informed) {
    struct sigaction action {};
    if (informed) {
      action.sa_flags = SA_SIGINFO;
      action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
        _exit(info->si_signo == signal ? 41 : 1);
      };
    } else {
      action.sa_handler = [](int signal) { _exit(signal == SIGBUS ? 42 : 1); };
    }
    sigaction(SIGBUS, &action, nullptr);
    const auto source = open(true);
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(raise_with(true), ::testing::ExitedWithCode(41), "");
  EXPECT_EXIT(raise_with(false), ::testing::ExitedWithCode(42), "");
  GTEST_FLAG_SET(death_test_style, "fast");
}

TEST_F(CutFile, OfSeveralFilesOnlyTheOneThatIsCutIsLost) {
  data_.write(folder_ / "b.h5", data_.samples);
  RunConfig config = data_.config(path_, 5000);
  config.data.train.push_back(folder_ / "b.h5");
  config.data.shuffle = false;
  config.data.verify = false;
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  const auto whole = static_cast<int64_t>(std::filesystem::file_size(folder_ / "b.h5"));
  Batch batch;
  source->load(8, batch);  // of b.h5, so that it was read before
  std::filesystem::resize_file(folder_ / "b.h5", static_cast<uintmax_t>(whole - 1));
  for (int64_t t = 0; t < 8; ++t) source->load(t, batch);
  EXPECT_EQ(run_error_of([&] { source->load(8, batch); }),
            fmt::format("{}: was cut short from {} to {} bytes while it was read", folder_ / "b.h5",
                        whole, whole - 1));
}

TEST_F(CutFile, LostPagesAreToldAlsoIfAnotherFileHasItsName) {
  const MappedFile file(path_);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path_));
  const std::byte* const last = file.column("all", size - 1, 1, 1);
  data_.write(folder_ / "b.h5", data_.samples);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(*reinterpret_cast<const volatile char*>(last), 0);
  std::filesystem::rename(folder_ / "b.h5", path_);
  EXPECT_THROW(file.check_pages(), Error);
  EXPECT_EQ(run_error_of([&] { file.check_whole(); }),
            path_ + ": a part of it can no longer be read: it was cut short, or its disk fails");
}

TEST_F(CutFile, OffsetsOfAFileThatIsCutWhileItIsOpenedAreNotBlamed) {
  auto mapped = std::make_unique<MappedFile>(path_);
  const auto structure = read_structures({path_}).front();
  std::filesystem::resize_file(path_, 0);
  EXPECT_THAT(run_error_of([&] { const DatasetFile file(std::move(mapped), structure); }),
              AllOf(HasSubstr(path_ + ": was cut short from "),
                    HasSubstr(" to 0 bytes while it was read")));
}

}  // namespace
}  // namespace dlrm
