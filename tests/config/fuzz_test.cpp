#include <fstream>
#include <random>
#include <sstream>

#include "sample_config.h"

namespace dlrm {
namespace {

constexpr const char* kNearMisses[] = {
    "nan",     "-1",   "0",   "1e400",      "99999999999999999999",
    "~",       "[]",   "{}",  "true",       "\"\"",
    "- ",      ": ",   "\n",  "\t",         "*a",
    "&a ",     "<<: ", "---", "{a: [",      "!!str",
    "? ",      "'",    "# ",  "\xff",       "| ",
    "> ",      "%",    "dot", "count: 3, ", "t: 1,",
    "[1, -2]", "1_000"};

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Draws positions and changes from a seed. The sequence is the same on every machine.
class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string changed(std::string text) {
    const size_t changes = 1 + below(3);
    for (size_t i = 0; i < changes && !text.empty(); ++i) change(text);
    return text;
  }

 private:
  size_t below(size_t bound) { return random_() % bound; }

  std::pair<size_t, size_t> token(const std::string& text) {
    const size_t at = below(text.size());
    const size_t begin = text.find_first_not_of(" ,:{}[]\n", at);
    if (begin == std::string::npos) return {at, 0};
    return {begin, std::min(text.find_first_of(" ,:{}[]\n", begin), text.size()) - begin};
  }

  void change(std::string& text) {
    const auto [at, length] = token(text);
    switch (below(6)) {
      case 0:
        return text.resize(below(text.size()));
      case 1:
        text[below(text.size())] = static_cast<char>(below(256));
        return;
      case 2: {  // removes a line
        const size_t begin = text.rfind('\n', at) + 1;
        text.erase(begin, text.find('\n', begin) - begin + 1);
        return;
      }
      case 3:
        text.erase(at, length);
        return;
      case 4: {  // replaces one token by another
        const auto [from, count] = token(text);
        text.replace(at, length, text.substr(from, count));
        return;
      }
      default:
        text.replace(at, length, kNearMisses[below(std::size(kNearMisses))]);
    }
  }

  std::mt19937 random_;
};

// Parses `yaml`. Fails the test if the result is neither a config nor a usage error, or if an
// accepted config changes when it is written and read again.
bool is_accepted(const std::string& yaml) {
  try {
    const RunConfig config = parse_config(yaml, "fuzz.yaml");
    EXPECT_EQ(parse_config(to_yaml(config), "again.yaml"), config) << yaml;
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what() << "\n" << yaml;
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return false;
  }
}

TEST(Fuzz, AMutatedConfigIsReadOrRefusedAndNothingElse) {
  std::vector<std::string> seeds{to_yaml(small_config()), kSmallYaml};
  for (const char* name : {"synthetic/tiny.yaml", "mlperf_dcnv2.yaml", "dle_4b.yaml"}) {
    seeds.push_back(read_text(config_path(name)));
  }
  Mutator mutator(20240607);
  int accepted = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    const std::string& seed = seeds[static_cast<size_t>(round) % seeds.size()];
    accepted += is_accepted(mutator.changed(seed));
  }
  EXPECT_GT(accepted, kRounds / 20);  // some changes must keep the syntax valid
  EXPECT_LT(accepted, kRounds);
}

TEST(Fuzz, ATruncatedConfigIsReadOrRefusedAtEveryLength) {
  for (size_t length = 0; length <= kSmallYaml.size(); ++length) {
    is_accepted(kSmallYaml.substr(0, length));
  }
}

TEST(Fuzz, AMutatedOverrideIsReadOrRefused) {
  Mutator mutator(7);
  for (int round = 0; round < 500; ++round) {
    const std::string override_text =
        mutator.changed("model.tables={name: t, rows: 5}, model.interaction={type: concat}");
    try {
      small_config({override_text});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << override_text;
    }
  }
}

}  // namespace
}  // namespace dlrm
