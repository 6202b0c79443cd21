#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "fixture.h"

namespace dlrm {
namespace {

/// The options that a help text lists.
std::set<std::string> listed(const std::string& help) {
  std::set<std::string> names;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::string word;
    std::istringstream(line) >> word;
    if (word.size() > 2 && word[2] == ',') word.erase(0, 3);  // -h,--help
    if (line[0] == ' ' && word.starts_with("--")) names.insert(word);
  }
  return names;
}

TEST(Help, ListsEveryOption) {
  const std::map<std::string, std::set<std::string>> programs = {
      {"dlrm-train",
       {"--help", "--version", "--set", "--resume", "--init-from", "--eval-only", "--predict",
        "--records", "--format", "--keys", "--print", "--overwrite", "--plan-only", "--ranks",
        "--device-memory", "--host-memory", "--device", "--check", "--profile"}},
      {"dlrm-plan",
       {"--help", "--version", "--ranks", "--ranks-per-node", "--machine", "--device-memory",
        "--host-memory", "--output", "--scan-data", "--scan-batches", "--set"}},
      {"dlrm-preflight", {"--help", "--version", "--folder", "--need-gpu"}},
      {"dlrm-infer",
       {"--help", "--version", "--tables", "--batch-size", "--threads", "--port", "--host",
        "--batch-wait", "--max-body", "--max-connections", "--max-requests", "--max-samples",
        "--model-name", "--timeout", "--reload-interval", "--records", "--format", "--keys"}},
  };
  const TemporaryFolder folder;
  for (const auto& [program, options] : programs) {
    const Outcome help = run_command(program + " --help", folder.path());
    EXPECT_EQ(help.code, 0) << program;
    EXPECT_EQ(listed(help.output), options) << program << "\n" << help.output;
    const Outcome version = run_command(program + " --version", folder.path());
    EXPECT_EQ(version.code, 0) << program;
    EXPECT_THAT(version.output, ::testing::ContainsRegex("^(dlrm-[a-z]+ )?[0-9]+[.][0-9]+"));
  }
}

TEST(Help, AnUnknownOptionIsOneLineAndExitCode2) {
  const TemporaryFolder folder;
  for (const std::string program :
       {"dlrm-train c.yaml", "dlrm-plan c.yaml --ranks 1", "dlrm-preflight",
        "dlrm-infer checkpoint", "dlrm-data inspect data.h5"}) {
    const Outcome done = run_command(program + " --nonsense", folder.path());
    EXPECT_EQ(done.code, 2) << program;
    EXPECT_THAT(done.errors, ::testing::MatchesRegex("error: [^\n]*--nonsense[^\n]*\n"));
  }
}

}  // namespace
}  // namespace dlrm
