#include "dlrm/core/terminal.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// A shell with the name of another program, which waits for its end on a terminal of its own.
class NamedProcess {
 public:
  /// `errors` is what stderr is opened as; empty: the terminal itself.
  NamedProcess(const std::string& name, const std::string& option, const char* errors) {
    std::string made = ::testing::TempDir() + "terminal_XXXXXX";
    folder_ = mkdtemp(made.data());
    const std::string program = folder_ + "/" + name;
    fs::create_symlink("/bin/sh", program);
    std::vector<std::string> words{name, "-c", "read line", option};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      if (errors[0] != '\0') dup2(open(errors, O_WRONLY), STDERR_FILENO);
      execv(program.c_str(), arguments.data());
      _exit(1);
    }
    for (std::string seen; seen != name && waitpid(pid_, nullptr, WNOHANG) == 0; usleep(1000)) {
      std::getline(std::ifstream("/proc/" + std::to_string(pid_) + "/comm"), seen);
    }
  }
  ~NamedProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(terminal_);
    fs::remove_all(folder_);
  }
  NamedProcess(const NamedProcess&) = delete;
  NamedProcess& operator=(const NamedProcess&) = delete;
  pid_t id() const { return pid_; }

 private:
  std::string folder_;
  int terminal_ = -1;
  pid_t pid_ = -1;
};

bool is_launcher(const std::string& name, const std::string& option, const char* errors = "") {
  return is_launcher_on_terminal(NamedProcess(name, option, errors).id());
}

TEST(Launcher, OnATerminalIsRecognisedByItsName) {
  for (const char* name : {"mpirun", "orterun", "prterun", "mpiexec"}) {
    EXPECT_TRUE(is_launcher(name, "--np")) << name;
  }
  EXPECT_FALSE(is_launcher("mpirun2", "--np"));
  EXPECT_FALSE(is_launcher("srun", "--np"));
}

TEST(Launcher, WhoseErrorsGoElsewhereIsNotOnATerminal) {
  EXPECT_TRUE(is_launcher("mpirun", "--np", "/dev/tty"));
  EXPECT_FALSE(is_launcher("mpirun", "--np", "/dev/null"));
}

TEST(Launcher, ThatChangesOutputIsNotOnATerminal) {
  for (const char* option : {"--tag-output", "-timestamp-output", "--output-filename", "-xterm"}) {
    EXPECT_FALSE(is_launcher("mpirun", option)) << option;
  }
}

}  // namespace
}  // namespace dlrm
