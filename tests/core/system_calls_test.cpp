// Each function that uses files, and each of its calls of the system in turn: the calls are those
// of system_calls.txt, a call that fails ends as it says there, and a call that is interrupted or
// transfers less than it should changes nothing.
#include "system_calls.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/block_writer.h"
#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/file.h"
#include "dlrm/core/folder_lock.h"
#include "dlrm/core/host_name.h"
#include "dlrm/core/replace_file.h"

#include "pinned_text.h"

namespace dlrm::testing {
namespace {

namespace fs = std::filesystem;
using Act = std::function<std::string(const std::string& folder)>;

struct Scenario {
  const char* name;
  Act act;  ///< what it returns belongs to its result
  /// Names of functions that always fail, as on some file systems.
  std::string missing = "";
  int why = 0;
  size_t most = ~size_t{0};  ///< bytes that they nevertheless reserve
};

/// Nobody waits, and there is no second beat.
constexpr LockTiming kAtOnce{std::chrono::milliseconds(0), std::chrono::hours(1),
                             std::chrono::milliseconds(0)};

std::string locked(const std::string& folder) {
  const FolderLock lock(folder, kAtOnce);
  const std::string record = read_file(folder + "/.dlrm-train.lock").value_or("");
  return (record.find("beat 000000000000\n") == std::string::npos ? "without" : "with") +
         std::string(" a record");
}

/// The record of a process of this machine, in which `pattern` is replaced by `by`.
void write_own_record(const std::string& folder, const std::string& pattern,
                      const std::string& by) {
  const std::string path = folder + "/.dlrm-train.lock";
  std::optional<FolderLock> lock(std::in_place, folder, kAtOnce);
  const std::string record = read_file(path).value_or("");
  lock.reset();
  write_file(path, std::regex_replace(record, std::regex(pattern), by));
}

/// A record of another host that was written when this process was not there.
void write_foreign_record(const std::string& folder) {
  write_file(folder + "/.dlrm-train.lock",
             "host elsewhere\npid 77\nstarted then\nboot another\nnamespace pid:[1]\nticks 5\n"
             "token abc\nbeat 000000000007\n");
}

/// While it lives, this program's folder is another one.
class WithinFolder {
 public:
  explicit WithinFolder(const std::string& folder) { fs::current_path(folder); }
  ~WithinFolder() { fs::current_path(before_); }
  WithinFolder(const WithinFolder&) = delete;
  WithinFolder& operator=(const WithinFolder&) = delete;

 private:
  const fs::path before_ = fs::current_path();
};

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"File: write, size, read",
       [](const std::string& folder) {
         File file(folder + "/a", File::Mode::kCreate);
         file.write("abcdefgh", 8, 3);
         std::string text(6, 0);
         file.read(text.data(), 6, 4);
         return text + std::to_string(file.size());
       }},
      {"File: kRead, kReadWrite",
       [](const std::string& folder) {
         write_file(folder + "/a", "abc");
         File(folder + "/a", File::Mode::kReadWrite).write("X", 1, 1);
         char text[3];
         File(folder + "/a", File::Mode::kRead).read(text, 3, 0);
         return std::string(text, 3);
       }},
      {"File: copy within the kernel",
       [](const std::string& folder) {
         File from(folder + "/from", File::Mode::kCreate), to(folder + "/to", File::Mode::kCreate);
         from.write("abcdefgh", 8, 0);
         to.copy(from, 7, 2);
         return std::to_string(to.size());
       }},
      {"File: copy where the kernel cannot",
       [](const std::string& folder) {
         File from(folder + "/from", File::Mode::kCreate), to(folder + "/to", File::Mode::kCreate);
         from.write("abcdefgh", 8, 0);
         to.copy(from, 7, 2);
         return std::to_string(to.size());
       },
       "copy_file_range", EXDEV},
      {"File: a copy of a short file",
       [](const std::string& folder) {
         File from(folder + "/from", File::Mode::kCreate), to(folder + "/to", File::Mode::kCreate);
         from.write("abc", 3, 0);
         to.copy(from, 7, 2);
         return "";
       }},
      {"File: reserve, start_sync, sync, bypass_cache",
       [](const std::string& folder) {
         File file(folder + "/a", File::Mode::kCreate);
         file.reserve(8192);
         file.start_sync();
         file.sync();
         file.bypass_cache();
         return std::to_string(file.size());
       }},
      {"File: reserve a part",
       [](const std::string& folder) {
         File file(folder + "/a", File::Mode::kCreate);
         file.write("abc", 3, 0);
         file.reserve(2);
         return std::to_string(file.size());
       }},
      {"File: reserve more than there is",
       [](const std::string& folder) {
         File file(folder + "/a", File::Mode::kCreate);
         file.write("abc", 3, 0);
         file.reserve(8192);
         return std::to_string(file.size());
       },
       "fallocate", ENOSPC, 4096},
      {"File: try_nameless",
       [](const std::string& folder) -> std::string {
         std::optional<File> file = File::try_nameless(folder + "/a");
         if (!file) return "none";
         file->write("abc", 3, 0);
         return std::to_string(file->size());
       }},
      {"write_file, read_text",
       [](const std::string& folder) {
         write_file(folder + "/a", "some text");
         return read_text(folder + "/a", 9);
       }},
      {"read_file",
       [](const std::string& folder) { return read_file(folder + "/none").value_or("none"); }},
      {"make_folders, sync_folder",
       [](const std::string& folder) {
         make_folders(folder + "/a/b");
         sync_folder(folder + "/a");
         return "";
       }},
      {"sync_folder where folders cannot be synced",
       [](const std::string& folder) {
         sync_folder(folder);
         return "";
       },
       "fsync", EINVAL},
      {"sync_folder where folders cannot be synced, as others say it",
       [](const std::string& folder) {
         sync_folder(folder);
         return "";
       },
       "fsync", ENOTSUP},
      {"exchange_or_rename",
       [](const std::string& folder) {
         make_folders(folder + "/old/deep");
         make_folders(folder + "/new/fresh");
         exchange_or_rename(folder + "/new", folder + "/old");
         exchange_or_rename(folder + "/new", folder + "/third");
         return "";
       }},
      {"exchange_or_rename where nothing can be exchanged",
       [](const std::string& folder) {
         make_folders(folder + "/old/deep");
         make_folders(folder + "/new/fresh");
         exchange_or_rename(folder + "/new", folder + "/old");
         return "";
       },
       "renameat2", EINVAL},
      {"FolderLock", locked},
      {"FolderLock where the kernel has no locks", locked, "fcntl", ENOLCK},
      {"FolderLock that another process has", locked, "fcntl", EAGAIN},
      {"FolderLock that another process has, as others say it", locked, "fcntl", EACCES},
      {"FolderLock over the record of a dead holder",
       [](const std::string& folder) {
         write_foreign_record(folder);
         return locked(folder);
       }},
      {"FolderLock that this process has, where the kernel has no locks",
       [](const std::string& folder) {
         const FolderLock lock(folder, kAtOnce);
         return locked(folder);
       },
       "fcntl", ENOLCK},
      {"FolderLock of a process that is gone, where the kernel has no locks",
       [](const std::string& folder) {
         write_own_record(folder, "pid \\d+", "pid 999999999");
         return locked(folder);
       },
       "fcntl", ENOLCK},
      {"FolderLock of a process whose number another one has, where the kernel has no locks",
       [](const std::string& folder) {
         write_own_record(folder, "ticks \\d+", "ticks 1");
         return locked(folder);
       },
       "fcntl", ENOLCK},
      {"host_name",
       [](const std::string&) {
         const std::string name = host_name();
         return name == "unknown" || name.empty() ? name : "a name";
       }},
      {"usable_cpus where the system does not tell",
       [](const std::string&) { return std::to_string(usable_cpus()); }, "sched_getaffinity",
       EINVAL},
      {"replace_file",
       [](const std::string& folder) {
         write_file(folder + "/a", "old");
         replace_file(folder + "/a", "new");
         return "";
       }},
      {"write_text",
       [](const std::string& folder) {
         write_text(folder + "/a", "text");
         return "";
       }},
      {"PartialFile",
       [](const std::string& folder) {
         PartialFile partial(folder + "/a");
         File file(partial.name(), File::Mode::kReadWrite);
         file.write("whole", 5, 0);
         partial.publish(file);
         return "";
       }},
      {"PartialFile of this folder",
       [](const std::string& folder) {
         const WithinFolder within(folder);
         PartialFile partial("a");
         File file("a.partial", File::Mode::kReadWrite);
         partial.publish(file);
         return "";
       }},
      {"PartialFile that is not published",
       [](const std::string& folder) {
         const PartialFile partial(folder + "/a");
         write_file(partial.name(), "half");
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

/// The names of the files below a folder and their texts.
std::string files_of(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::string name = entry.path().string().substr(folder.size() + 1);
    if (entry.is_regular_file()) {
      const std::string text = read_file(entry.path().string()).value_or("?");
      const bool shown = text.size() < 20 && text.find('\0') == std::string::npos;
      name += shown ? " '" + text + "'" : " of " + std::to_string(text.size()) + " bytes";
    }
    // The record of a lock has the names and times of this machine.
    found.push_back(name.find(".lock") == std::string::npos ? name : ".dlrm-train.lock");
  }
  std::sort(found.begin(), found.end());
  return fmt::format("[{}]", fmt::join(found, ", "));
}

struct Ending {
  std::vector<std::string> calls;
  std::string text;
};

/// Runs a scenario in a folder of its own. Call `at` is disturbed, if there is one.
Ending end_of(const Scenario& scenario, int at, Disturbance disturbance) {
  std::string folder = ::testing::TempDir() + "calls_XXXXXX";
  folder = mkdtemp(folder.data());
  Ending ending;
  {
    int number = 0;
    SystemCalls calls(folder, [&](const std::string& call) {
      if (number++ == at) return disturbance;
      const bool missing = call.substr(0, call.find(' ')) == scenario.missing;
      return missing ? Disturbance{scenario.why, scenario.most} : Disturbance{};
    });
    try {
      ending.text = "done " + scenario.act(folder);
    } catch (const Error& error) {
      ending.text = fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
      for (size_t begin; (begin = ending.text.find(folder)) != std::string::npos;) {
        ending.text.replace(begin, folder.size(), "FOLDER");
      }
    }
    ending.calls = calls.noted();
  }
  ending.text += " " + files_of(folder);
  // What differs among machines and from time to time.
  static const std::regex holder("host \\S+, pid \\d+, started [^;]+ UTC;"),
      name("\\ba\\.\\w{6}\\b"), size("\\b(1[2-9]|2)\\d+\\b");
  ending.text = std::regex_replace(ending.text, holder, "HOLDER;");
  ending.text = std::regex_replace(ending.text, name, "a.XXXXXX");
  for (std::string& text : ending.calls) text = std::regex_replace(text, name, "a.XXXXXX");
  const auto without_size = [&](std::string& text) {
    if (text.find(".lock") != std::string::npos) text = std::regex_replace(text, size, "N");
  };
  without_size(ending.text);
  for (std::string& text : ending.calls) without_size(text);
  fs::remove_all(folder);
  return ending;
}

bool transfers(const std::string& call) {
  return call.rfind("pread", 0) == 0 || call.rfind("pwrite", 0) == 0 ||
         call.rfind("copy_file_range", 0) == 0;
}

TEST(SystemCalls, EachThatFailsIsAnErrorWithItsReason) {
  std::ostringstream out;
  for (const Scenario& scenario : scenarios()) {
    const Ending all = end_of(scenario, -1, {});
    out << scenario.name << ": " << all.text << "\n";
    for (size_t i = 0; i < all.calls.size(); ++i) {
      const Ending failed = end_of(scenario, static_cast<int>(i), {EIO});
      out << "  " << all.calls[i];
      out << (failed.text == all.text ? "" : "\n    fails: " + failed.text) << "\n";
      if (!transfers(all.calls[i])) continue;
      out << "    transfers nothing: " << end_of(scenario, static_cast<int>(i), {0, 0}).text
          << "\n";
    }
  }
  expect_text_of_file(out.str(), DLRM_SOURCE "/tests/core/system_calls.txt");
}

TEST(SystemCalls, ATransferThatIsInterruptedOrShortGoesOn) {
  for (const Scenario& scenario : scenarios()) {
    const Ending all = end_of(scenario, -1, {});
    for (size_t i = 0; i < all.calls.size(); ++i) {
      if (!transfers(all.calls[i])) continue;
      const int at = static_cast<int>(i);
      EXPECT_EQ(end_of(scenario, at, {EINTR}).text, all.text) << scenario.name << all.calls[i];
      EXPECT_EQ(end_of(scenario, at, {0, 1}).text, all.text) << scenario.name << all.calls[i];
    }
  }
}

}  // namespace
}  // namespace dlrm::testing
