#include "criteo_options.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include <sys/stat.h>

#include "dlrm/core/error.h"

#include "thread_option.h"

namespace dlrm {
namespace {

void refuse(bool both, const char* one, const char* other, const char* why) {
  if (both) throw usage_error("{} and {} exclude each other: {}", one, other, why);
}

void check_dictionary_options(const CriteoOptions& o) {
  const bool dictionary = !o.dictionary.empty();
  const bool threshold = o.frequency_threshold > 0;
  refuse(o.max_rows > 0 && dictionary, "--max-rows", "--dictionary", "a hash needs no dictionary");
  refuse(o.max_rows > 0 && threshold, "--max-rows", "--frequency-threshold",
         "a hash knows no values");
  if (!o.frozen_dictionary) return;
  if (!dictionary) throw usage_error("--frozen-dictionary needs --dictionary FILE");
  refuse(threshold, "--frozen-dictionary", "--frequency-threshold",
         "a frozen dictionary takes no new values");
  if (!std::filesystem::exists(o.dictionary)) {
    throw usage_error("{}: no such dictionary; --frozen-dictionary needs one that exists",
                      o.dictionary);
  }
}

void check_test_options(const CriteoOptions& o) {
  if (o.test_output.empty() != (o.test_fraction == 0)) {
    throw usage_error("--test-output and --test-fraction need each other");
  }
  if (!(o.test_fraction >= 0 && o.test_fraction < 1)) {
    throw usage_error("--test-fraction {}; expected a number between 0 and 1", o.test_fraction);
  }
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored) ||
         std::filesystem::absolute(a).lexically_normal() ==
             std::filesystem::absolute(b).lexically_normal();
}

/// Throws if an output would replace an input or another output.
void check_paths(const CriteoOptions& o) {
  std::vector<std::string> paths = o.inputs;
  for (const std::string& path : {o.output, o.test_output, o.dictionary}) {
    if (path.empty()) continue;
    for (const std::string& other : paths) {
      if (same_file(path, other)) throw usage_error("{} is named twice", path);
    }
    paths.push_back(path);
  }
}

/// Checks all inputs before the first is read, because reading may take long.
void check_inputs(const CriteoOptions& o) {
  for (const std::string& input : o.inputs) {
    struct stat info {};
    if (::stat(input.c_str(), &info) != 0) {
      throw usage_error("{}: cannot open: {}", input, std::strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) throw usage_error("{}: is a folder, not a file", input);
    if (needs_survey(o) && !S_ISREG(info.st_mode)) {
      throw usage_error(
          "{}: --test-output and --frequency-threshold read twice, so not from a pipe", input);
    }
  }
}

}  // namespace

bool needs_survey(const CriteoOptions& options) {
  return options.frequency_threshold > 0 || !options.test_output.empty();
}

void check_criteo_options(const CriteoOptions& o) {
  if (o.inputs.empty()) throw usage_error("no input file; expected IN.tsv or IN.tsv.gz");
  if (o.output.empty()) throw usage_error("--output FILE is missing");
  if (o.frequency_threshold < 0) throw usage_error("--frequency-threshold is at least 1");
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();
  if (o.max_rows < 0 || o.max_rows > kMostRows) {
    throw usage_error("--max-rows {}; expected 1 to {}", o.max_rows, kMostRows);
  }
  if (o.threads < 0 || o.threads > kMostToolThreads) {
    throw usage_error("--threads {}; expected 1 to {}", o.threads, kMostToolThreads);
  }
  check_dictionary_options(o);
  check_test_options(o);
  check_paths(o);
  check_inputs(o);
}

}  // namespace dlrm
