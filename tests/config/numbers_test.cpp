// Which texts are numbers: every text of up to four of a few characters, compared with a grammar.
#include <cmath>
#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "sample_config.h"

namespace dlrm {
namespace {

std::vector<std::string> short_texts() {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; texts[i].size() < 4; ++i) {
    for (const char c : std::string("+-01.e")) texts.push_back(texts[i] + c);
  }
  return texts;
}

/// A decimal number, with a sign or without.
std::optional<double> number_of(const std::string& text) {
  static const auto kIsNumber = ::testing::Matches(
      ::testing::MatchesRegex("[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?"));
  if (!kIsNumber(text)) return std::nullopt;
  return std::strtod(text.c_str(), nullptr);
}

template <class Get>
auto accepted(const std::string& key, const std::string& text, const Get& get)
    -> std::optional<decltype(get(RunConfig()))> {
  try {
    return get(small_config({key + "=" + text}));
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(NumbersInTexts, AreRealNumbersOfTheGrammar) {
  const auto get = [](const RunConfig& config) { return config.train.dense_optimizer.lr; };
  for (const std::string& text : short_texts()) {
    std::optional<double> expected = number_of(text);
    if (expected && !(*expected >= 0 && *expected <= 1e6)) expected.reset();
    EXPECT_EQ(accepted("train.dense_optimizer.lr", text, get), expected) << text;
  }
}

TEST(NumbersInTexts, AreWholeIfTheirValueIs) {
  const auto get = [](const RunConfig& config) { return static_cast<double>(config.train.seed); };
  for (const std::string& text : short_texts()) {
    std::optional<double> expected = number_of(text);
    if (expected &&
        !(*expected >= 0 && *expected == std::floor(*expected) && *expected <= 0x1p53)) {
      expected.reset();
    }
    EXPECT_EQ(accepted("train.seed", text, get), expected) << text;
  }
}

}  // namespace
}  // namespace dlrm
