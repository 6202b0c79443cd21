#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

#include "error_of.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

class PartialFiles : public ::testing::Test {
 protected:
  PartialFiles() {
    std::string name = ::testing::TempDir() + "partial_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~PartialFiles() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  /// How a child that runs `body` ends, as waitpid() tells.
  static int status_of(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      // nohup, for example, starts programs that ignore a signal.
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
      remove_partial_files_on_signals();
      body();
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  std::string folder_;
};

TEST_F(PartialFiles, APipeAndAFolderAreNotReplaced) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_directories(path("folder"));
  EXPECT_THROW(PartialFile(path("pipe")), Error);
  EXPECT_THROW(PartialFile(path("folder")), Error);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(PartialFiles, ASignalRemovesAllThatAreNotPublished) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = status_of([&] {
      PartialFile published(path("published"));
      File file(published.name(), File::Mode::kCreate);
      published.publish(file);
      const PartialFile first(path("first")), second(path("second"));
      std::raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_TRUE(fs::exists(path("published")));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  }
}

TEST_F(PartialFiles, ThoseOfKilledProgramsAreRemovedByTheNextWriterOfTheTarget) {
  const int status = status_of([&] {
    const PartialFile killed(path("a"));
    std::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  const PartialFile of_another(path("ab"));
  const std::string others[] = {path("a.0123456789abcdef.partial.h5"), path("a.partial"),
                                path("a.0123456789abcdeg.partial"), of_another.name()};
  for (const std::string& name : others) std::ofstream(name) << "text";
  const auto files = [&] { return std::distance(fs::directory_iterator(folder_), {}); };
  const auto with_the_killed_one = files();
  const PartialFile next(path("a"));
  EXPECT_EQ(files(), with_the_killed_one);  // one less, and one more
  EXPECT_THROW(PartialFile(path("a")), Error);
  EXPECT_TRUE(fs::exists(next.name()));
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(name)) << name;
}

TEST_F(PartialFiles, FilesThatAreDoneLeaveTheirPlaceInTheList) {
  const int status = status_of([&] {
    for (int i = 0; i < 40; ++i) {
      PartialFile done(path("done"));
      if (i % 2 == 0) continue;
      File file(done.name(), File::Mode::kCreate);
      done.publish(file);
    }
    fs::remove(path("done"));
    // As many as the list holds. Few of these names can be where those above were in memory.
    std::vector<std::unique_ptr<PartialFile>> last;
    for (size_t i = 0; i < 16; ++i) {
      last.push_back(std::make_unique<PartialFile>(path(std::string(1 + 12 * i, 'l'))));
    }
    std::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PartialFiles, MoreThanTheListHoldsAreWrittenToo) {
  std::vector<std::unique_ptr<PartialFile>> many;
  for (int i = 0; i < 20; ++i) {
    many.push_back(std::make_unique<PartialFile>(path(std::to_string(i))));
    File file(many.back()->name(), File::Mode::kCreate);
    many.back()->publish(file);
  }
  many.clear();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 20);
}

TEST_F(PartialFiles, ASignalThatWasIgnoredStaysIgnored) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_IGN);
    remove_partial_files_on_signals();
    std::raise(SIGHUP);
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST_F(PartialFiles, AFolderThatTakesThePlaceOfTheTargetIsNamed) {
  const std::string error = error_of([&] {
    PartialFile partial(path("target"));
    File file(partial.name(), File::Mode::kCreate);
    fs::create_directories(path("target/full"));
    partial.publish(file);
  });
  EXPECT_NE(error.find(": cannot rename to " + path("target") + ":"), std::string::npos) << error;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(PartialFiles, ASecondWriterOfAFileIsRefusedUntilTheFirstEnds) {
  {
    const PartialFile first(path("a"));
    EXPECT_THROW(PartialFile(path("a")), Error);
    const PartialFile other(path("b"));
  }
  const PartialFile second(path("a"));
}

}  // namespace
}  // namespace dlrm
