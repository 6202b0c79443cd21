// Files that a user names, and files that lie where the program writes.
#include "fixture.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

class GivenFiles : public SmallRun {
 protected:
  /// Runs with bounded memory, and expects exit code 2 and an error with these words.
  void expect_refused(const std::string& command, const std::vector<std::string>& words) const {
    // AddressSanitizer reserves more address space than any limit.
    const std::string limit =
        std::string(DLRM_SANITIZER_FLAGS).empty() ? "ulimit -v 1500000; " : "";
    const Outcome outcome = run_command("(" + limit + command + ")", folder_.path(), 30);
    EXPECT_EQ(outcome.code, 2) << command << outcome.errors;
    for (const std::string& word : words) {
      EXPECT_NE(error_line(outcome).find(word), std::string::npos) << word << outcome.errors;
    }
  }
};

TEST_F(GivenFiles, AnEndlessFileIsRefused) {
  const std::string plan = "dlrm-train config.yaml --set sharding.plan=";
  expect_refused(plan + "/dev/zero", {"/dev/zero", "not a regular file", "plan.json"});
  expect_refused("dlrm-train /dev/zero", {"/dev/zero", "not a regular file"});
  expect_refused("dlrm-plan /dev/zero --ranks 2", {"/dev/zero", "not a regular file"});
  expect_refused("mkfifo pipe; " + plan + "pipe", {"pipe", "not a regular file"});
  expect_refused("dlrm-train pipe", {"pipe", "not a regular file"});
}

TEST_F(GivenFiles, AFileTooLongToBeAPlanOrAConfigIsRefused) {
  ASSERT_EQ(run_command("truncate -s 100G long", folder_.path()).code, 0);
  expect_refused("dlrm-train long", {"long", "longer than"});
  expect_refused("dlrm-train config.yaml --set sharding.plan=long", {"long", "longer than"});
}

TEST_F(GivenFiles, ALinkWhereTheRunWritesIsNotFollowed) {
  write_file(path("precious"), "precious");
  fs::create_directory(path("run"));
  for (const char* name :
       {"config.yaml", "plan.json", "summary.json", "metrics.jsonl", "config.yaml.tmp",
        "plan.json.tmp", "summary.json.tmp", "metrics.jsonl.tmp"}) {
    fs::create_symlink(path("precious"), path("run") / name);
  }
  const Outcome outcome = train(1, "");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read_file(path("precious")), "precious");
  for (const char* name : {"config.yaml", "plan.json", "summary.json", "metrics.jsonl"}) {
    EXPECT_FALSE(fs::is_symlink(path("run") / name)) << name;
  }
}

TEST_F(GivenFiles, ALinkWhereDlrmDataWritesIsNotFollowed) {
  write_file(path("precious"), "precious");
  for (const char* name : {"new.h5", "new.tsv"}) {
    fs::create_symlink(path("precious"), path(std::string(name) + ".partial"));
    const Outcome outcome = run_command(std::string("dlrm-data synth --samples 10 ") +
                                            (name[4] == 'h' ? "--config config.yaml" : "--criteo") +
                                            " --output " + name,
                                        folder_.path());
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(read_file(path("precious")), "precious");
  }
}

TEST_F(GivenFiles, WhatAKilledRunLeftInItsFolderIsRemoved) {
  fs::create_directory(path("run"));
  for (const char* name : {"config.yaml.0123abcd.tmp", "summary.json.ffffffff.tmp", "mine.tmp"}) {
    write_file(path("run") / name, "half");
  }
  ASSERT_EQ(train(1, "--set train.steps=1").code, 0);
  EXPECT_FALSE(fs::exists(path("run/config.yaml.0123abcd.tmp")));
  EXPECT_FALSE(fs::exists(path("run/summary.json.ffffffff.tmp")));
  EXPECT_TRUE(fs::exists(path("run/mine.tmp")));
}

}  // namespace
}  // namespace dlrm
