#include <cstdlib>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "criteo_fixture.h"
#include "synth_pipeline.h"
#include "task_team.h"
#include "thread_option.h"

namespace dlrm {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // memory is counted and limited otherwise
#else
constexpr bool kSanitized = false;
#endif

struct Ended {
  int code = -1;  // of an Error, or 0
  double mebibytes = 0;
};

/// Runs `body` in a process of its own.
Ended run_apart(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    } catch (...) {
      _exit(100);
    }
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          static_cast<double>(usage.ru_maxrss) / 1024};
}

class CriteoMemory : public InFolder {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's memory would be counted too";
  }

  /// A log whose first line is good, so that something is converted.
  std::string log(const std::string& name, const std::string& rest) const {
    return write(name, text_of(generated_lines(1, 1)) + rest);
  }

  Ended convert_apart(const std::string& input, bool skip_malformed) const {
    CriteoOptions o = options({input}, "out.h5");
    o.threads = 2;
    o.skip_malformed = skip_malformed;
    return run_apart([&] { convert_criteo(o); });
  }
};

constexpr size_t kBytes = size_t{40} << 20;
// What run_criteo_pass promises for two threads, and what the process takes besides.
constexpr double kMostMebibytes = 2 * 200 + 100;

TEST_F(CriteoMemory, IsBoundedForAnyLines) {
  const auto lines = [](const std::string& line) {
    std::string text;
    while (text.size() < kBytes) text += line;
    return text;
  };
  const std::string shortest = "0" + std::string(39, '\t') + "\n", longest(1500000, '\t');
  struct Case {
    std::string line;
    bool skip;
    int code;
  };
  for (const Case& c : {Case{"\n", false, 2},
                        {"\n", true, 0},
                        {shortest, false, 0},
                        {longest + "\n", true, 0},
                        {"x", false, 2},
                        {"\t", true, 2},
                        {"0", true, 2}}) {
    log("in.tsv", lines(c.line));
    const Ended ended = convert_apart("in.tsv", c.skip);
    EXPECT_EQ(ended.code, c.code) << c.line.substr(0, 50);
    EXPECT_LT(ended.mebibytes, kMostMebibytes) << c.line.substr(0, 50);
  }
  write("in.tsv", gzipped(text_of(generated_lines(1, 1)) + lines("\n")));  // which is small
  const Ended packed = convert_apart("in.tsv", true);
  EXPECT_EQ(packed.code, 0);
  EXPECT_LT(packed.mebibytes, kMostMebibytes);
}

/// Leaves room for a few thread stacks more.
void limit_address_space() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = rlim_t{1} << 30;
  setrlimit(RLIMIT_AS, &limit);
}

TEST(ToolThreads, AreAnErrorIfTheSystemStartsFewer) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs more address space";
  EXPECT_EQ(run_apart([] {
              limit_address_space();
              const TaskTeam team(kMostToolThreads);
            }).code,
            2);
  EXPECT_EQ(run_apart([] {
              limit_address_space();
              run_in_order<int>(
                  5, kMostToolThreads, [](int64_t, int&) {}, [](const int&) {});
            }).code,
            2);
}

}  // namespace
}  // namespace dlrm
