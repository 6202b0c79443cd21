// The process that reads the metadata of datasets.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "data/structure_reader.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The error of reading a pipe, which HDF5 cannot.
std::string error_of_pipe(const std::string& path) {
  return run_error_of([&] { read_structures({path}); });
}

const std::string kIllegalSeek = ": HDF5 cannot read the file: file read failed: Illegal seek";

/// The folder in /proc of the process that reads `path`. Waits for it.
fs::path reader_of(const std::string& path) {
  const std::string command = std::string("dlrm-read-structures\0", 21) + path;
  for (int tries = 0; tries < 3000; ++tries) {
    std::error_code ended;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string words = text_of(entry.path() / "cmdline");
      if (words.find(command) == 0) return entry.path();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

/// The line of a text that begins with `key`, with single spaces.
std::string line_of(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  std::string line;
  for (const char c : text.substr(at, text.find('\n', at) - at)) {
    if (c == '\t' || (c == ' ' && !line.empty() && line.back() == ' ')) continue;
    line += c;
  }
  return line;
}

/// Reading a pipe waits until somebody opens its other end.
TEST(StructureProcess, HasLimitsAndIsQuiet) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe.h5";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string error;
  std::thread parent([&] { error = error_of_pipe(pipe); });
  const fs::path process = reader_of(pipe);
  ASSERT_FALSE(process.empty());
  std::string limits;
  for (int tries = 0; tries < 3000; ++tries) {
    limits = text_of(process / "limits");
    if (line_of(limits, "Max cpu time").find("Max cpu time 60 ") == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(line_of(limits, "Max cpu time"), HasSubstr("Max cpu time 60 "));
  EXPECT_THAT(line_of(limits, "Max core file size"), HasSubstr("Max core file size 0 "));
  if (!kSanitized) {
    std::string data;
    for (int tries = 0; tries < 3000 && data.find("4294967296") == std::string::npos; ++tries) {
      data = line_of(text_of(process / "limits"), "Max data size");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_THAT(data, HasSubstr("Max data size 4294967296 "));
  }
  EXPECT_EQ(fs::read_symlink(process / "fd/2"), "/dev/null");
  const int end = open(pipe.c_str(), O_WRONLY);
  EXPECT_GE(end, 0);
  close(end);
  parent.join();
  EXPECT_EQ(error, pipe + kIllegalSeek);
}

TEST(StructureProcess, SignalsThatInterruptTheCallerChangeNothing) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe.h5";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  struct sigaction handler {
  }, before{};
  handler.sa_handler = [](int) {};  // without SA_RESTART
  sigaction(SIGUSR2, &handler, &before);
  std::string error;
  std::thread parent([&] { error = error_of_pipe(pipe); });
  EXPECT_FALSE(reader_of(pipe).empty());
  for (int i = 0; i < 20; ++i) {
    pthread_kill(parent.native_handle(), SIGUSR2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  close(open(pipe.c_str(), O_WRONLY));
  parent.join();
  sigaction(SIGUSR2, &before, nullptr);
  EXPECT_EQ(error, pipe + kIllegalSeek);
}

TEST(StructureProcess, TheSignalThatEndsItIsTold) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe.h5";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string error;
  std::thread parent([&] { error = usage_error_of([&] { read_structures({pipe}); }); });
  const fs::path process = reader_of(pipe);
  ASSERT_FALSE(process.empty());
  kill(std::stoi(process.filename().string()), SIGKILL);
  parent.join();
  EXPECT_EQ(error, pipe +
                       ": damaged: the HDF5 library ended with signal Killed while it read the "
                       "metadata");
}

TEST(StructureProcess, LeavesNoOpenFiles) {
  const TemporaryFolder folder;
  SmallDataset().write(folder / "a.h5");
  const auto files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  read_structures({folder / "a.h5"});
  const auto before = files();
  for (int i = 0; i < 5; ++i) {
    read_structures({folder / "a.h5", folder / "a.h5"});
    usage_error_of([&] { read_structures({folder / "none.h5"}); });
  }
  EXPECT_EQ(files(), before);
}

TEST(StructureProcess, TheErrorOfTheFirstBadFileIsTold) {
  const TemporaryFolder folder;
  SmallDataset().write(folder / "a.h5");
  std::ofstream(folder / "b.h5") << "text";
  std::ofstream(folder / "c.h5") << "text";
  EXPECT_EQ(usage_error_of([&] {
              read_structures({folder / "a.h5", folder / "b.h5", folder / "c.h5"});
            }),
            folder / "b.h5" + ": not an HDF5 file, or a damaged one");
  const auto both = read_structures({folder / "a.h5", folder / "a.h5"});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].samples, 10);
  EXPECT_EQ(both[1].features.size(), 3u);
}

}  // namespace
}  // namespace dlrm
