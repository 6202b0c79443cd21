// Each function that uses files, while each of its calls of the system in turn fails, is
// interrupted, or transfers less than it should.
#include "system_calls.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/block_writer.h"
#include "dlrm/core/error.h"
#include "dlrm/core/file.h"
#include "dlrm/core/replace_file.h"

namespace dlrm::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What it returns belongs to its result.
using Act = std::function<std::string(const std::string& folder)>;

struct Case {
  const char* name;
  Act act;
  /// A function that always fails, as on some file systems.
  std::string missing = "";
};

std::string copy_a_file(const std::string& folder) {
  File from(folder + "/from", File::Mode::kCreate), to(folder + "/to", File::Mode::kCreate);
  from.write("abcdefgh", 8, 0);
  to.copy(from, 7, 2);
  return std::to_string(to.size());
}

/// Functions of which every failure is an error, unless it changes nothing.
const std::vector<Case>& uses_of_files() {
  static const std::vector<Case> all{
      {"write, size, read",
       [](const std::string& folder) {
         File file(folder + "/a", File::Mode::kCreate);
         file.write("abcdefgh", 8, 3);
         std::string text(6, 0);
         file.read(text.data(), 6, 4);
         return text + std::to_string(file.size());
       }},
      {"change a file",
       [](const std::string& folder) {
         write_file(folder + "/a", "abc");
         File(folder + "/a", File::Mode::kReadWrite).write("X", 1, 1);
         char text[3];
         File(folder + "/a", File::Mode::kRead).read(text, 3, 0);
         return std::string(text, 3);
       }},
      {"copy within the kernel", copy_a_file},
      {"copy where the kernel cannot", copy_a_file, "copy_file_range"},
      {"reserve, sync, bypass the cache",
       [](const std::string& folder) {
         File file(folder + "/a", File::Mode::kCreate);
         file.write("abc", 3, 0);
         file.reserve(3);
         file.start_sync();
         file.sync();
         file.bypass_cache();
         return std::to_string(file.size());
       }},
      {"write to a file without a name",
       [](const std::string& folder) -> std::string {
         std::optional<File> file = File::try_nameless(folder + "/a");
         if (!file) throw run_error("{}: {}", folder, std::strerror(errno));
         file->write("abc", 3, 0);
         return std::to_string(file->size());
       }},
      {"write_file, read_text",
       [](const std::string& folder) {
         write_file(folder + "/a", "some text");
         return read_text(folder + "/a", 9);
       }},
      {"sync_folder",
       [](const std::string& folder) {
         sync_folder(folder);
         return "";
       }},
      {"BlockWriter",
       [](const std::string& folder) {
         File file(folder + "/a", File::Mode::kCreate);
         BlockWriter writer(file, 4096);
         AlignedBlock block = aligned_block(4096);
         std::fill_n(block.get(), 4096, std::byte{'x'});
         writer.write(block, 4096, 0);
         writer.wait();
         return "";
       }},
  };
  return all;
}

/// Functions that replace the text "old" of the file "a" by "new".
const std::vector<Case>& replacements() {
  static const std::vector<Case> all{
      {"replace_file",
       [](const std::string& folder) {
         replace_file(folder + "/a", "new");
         return "";
       }},
      {"write_text",
       [](const std::string& folder) {
         write_text(folder + "/a", "new");
         return "";
       }},
      {"PartialFile",
       [](const std::string& folder) {
         PartialFile partial(folder + "/a");
         File file(partial.name(), File::Mode::kReadWrite);
         file.write("new", 3, 0);
         partial.publish(file);
         return "";
       }},
      {"PartialFile of this folder",
       [](const std::string& folder) {
         const fs::path before = fs::current_path();
         fs::current_path(folder);
         const auto write = [] {
           PartialFile partial("a");
           File file(fs::absolute(partial.name()), File::Mode::kReadWrite);
           file.write("new", 3, 0);
           partial.publish(file);
         };
         try {
           write();
         } catch (...) {
           fs::current_path(before);
           throw;
         }
         fs::current_path(before);
         return "";
       }},
  };
  return all;
}

/// The names of the files below a folder, with their texts. A lock says nothing: one that cannot be
/// removed stays.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().string().substr(folder.size() + 1);
    if (name.ends_with(".lock")) continue;
    const bool file = entry.is_regular_file();
    found.push_back(file ? name + ": " + read_file(entry.path().string()).value_or("?") : name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

int64_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

struct Ending {
  std::string disturbed;  ///< the function whose call was disturbed; empty: there was none
  std::string result, error;
  std::vector<std::string> files;

  bool same_as(const Ending& other) const {
    return result == other.result && error == other.error && files == other.files;
  }
};

/// Runs a case in a folder of its own, which `prepare` fills. The call `at` is disturbed.
Ending end_of(const Case& c, int at, Disturbance disturbance,
              const std::function<void(const std::string& folder)>& prepare = {}) {
  std::string folder = ::testing::TempDir() + "calls_XXXXXX";
  folder = mkdtemp(folder.data());
  if (prepare) prepare(folder);
  const int64_t open = open_files();
  Ending ending;
  {
    const SystemCalls calls(folder, [&, number = 0](const std::string& function) mutable {
      if (number++ == at) {
        ending.disturbed = function;
        return disturbance;
      }
      return function == c.missing ? Disturbance{ENOTSUP} : Disturbance{};
    });
    try {
      ending.result = "done " + c.act(folder);
    } catch (const Error& error) {
      ending.error = error.what();
      EXPECT_THAT(ending.error, AnyOf(StartsWith(folder), StartsWith("a.")));
    }
  }
  EXPECT_EQ(open_files(), open) << c.name << ", " << ending.disturbed;
  ending.files = files_of(folder);
  fs::remove_all(folder);
  return ending;
}

/// How `c` ends if each of its calls is disturbed in turn.
std::vector<Ending> endings(const Case& c, Disturbance disturbance,
                            const std::function<void(const std::string& folder)>& prepare = {}) {
  std::vector<Ending> found;
  for (int at = 0;; ++at) {
    Ending ending = end_of(c, at, disturbance, prepare);
    if (ending.disturbed.empty()) return found;
    found.push_back(std::move(ending));
  }
}

bool transfers(const std::string& function) {
  return function == "pread" || function == "pwrite" || function == "copy_file_range";
}

TEST(SystemCalls, EachThatFailsIsAnErrorWithItsReasonOrChangesNothing) {
  for (const Case& c : uses_of_files()) {
    const Ending whole = end_of(c, -1, {});
    EXPECT_EQ(whole.error, "") << c.name;
    for (const Ending& ending : endings(c, {EIO})) {
      // A name that cannot be removed stays.
      if (ending.same_as(whole) || ending.disturbed == "unlink") continue;
      EXPECT_THAT(ending.error, HasSubstr("Input/output error")) << c.name << ending.disturbed;
    }
  }
}

TEST(SystemCalls, ATransferThatIsInterruptedOrShortGoesOn) {
  for (const std::vector<Case>& cases : {uses_of_files(), replacements()}) {
    for (const Case& c : cases) {
      const Ending whole = end_of(c, -1, {});
      for (const Disturbance disturbance : {Disturbance{EINTR}, Disturbance{0, 1}}) {
        for (const Ending& ending : endings(c, disturbance)) {
          // Other calls are not interrupted.
          if (disturbance.error != 0 && !transfers(ending.disturbed)) continue;
          EXPECT_TRUE(ending.same_as(whole)) << c.name << ", " << ending.disturbed;
        }
      }
    }
  }
}

TEST(SystemCalls, AWriteOfNothingIsAnError) {
  for (const Case& c : uses_of_files()) {
    for (const Ending& ending : endings(c, {0, 0})) {
      EXPECT_TRUE(ending.disturbed != "pwrite" || !ending.error.empty()) << c.name;
    }
  }
}

TEST(SystemCalls, AReplacementThatFailsLeavesTheOldTextOrTheNewOneAndNothingElse) {
  const auto prepare = [](const std::string& folder) { write_file(folder + "/a", "old"); };
  for (const Case& c : replacements()) {
    EXPECT_EQ(end_of(c, -1, {}, prepare).files, std::vector<std::string>{"a: new"}) << c.name;
    for (const int error : {EIO, ENOSPC}) {
      for (const Ending& ending : endings(c, {error}, prepare)) {
        const std::string text = ending.error.empty() ? "a: new" : "a: old";
        EXPECT_EQ(ending.files, std::vector<std::string>{text}) << c.name << ending.disturbed;
      }
    }
  }
}

TEST(SystemCalls, APartialFileThatIsNotPublishedLeavesTheOldText) {
  const Case c{"not published", [](const std::string& folder) {
                 const PartialFile partial(folder + "/a");
                 write_file(partial.name(), "half");
                 return "";
               }};
  const auto prepare = [](const std::string& folder) { write_file(folder + "/a", "old"); };
  for (const Ending& ending : endings(c, {EIO}, prepare)) {
    if (ending.disturbed == "unlink") continue;
    EXPECT_EQ(ending.files, std::vector<std::string>{"a: old"}) << ending.disturbed;
  }
}

TEST(SystemCalls, AnExchangeOfFoldersThatFailsLosesNeither) {
  const auto prepare = [](const std::string& folder) {
    make_folders(folder + "/old/deep");
    make_folders(folder + "/new/fresh");
  };
  for (const std::string missing : {"", "renameat2"}) {
    const Case c{"exchange",
                 [](const std::string& folder) {
                   exchange_or_rename(folder + "/new", folder + "/old");
                   return "";
                 },
                 missing};
    const std::vector<std::string> exchanged{"new", "new/deep", "old", "old/fresh"};
    EXPECT_EQ(end_of(c, -1, {}, prepare).files, exchanged);
    for (const Ending& ending : endings(c, {EIO}, prepare)) {
      EXPECT_TRUE(!ending.error.empty() || ending.files == exchanged) << ending.disturbed;
      for (const std::string kept : {"/deep", "/fresh"}) {
        const auto is_kept = [&](const std::string& name) { return name.ends_with(kept); };
        EXPECT_TRUE(std::any_of(ending.files.begin(), ending.files.end(), is_kept))
            << kept << " is lost: " << ending.disturbed;
      }
    }
  }
}

}  // namespace
}  // namespace dlrm::test
