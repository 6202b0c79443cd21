#pragma once
#include <string>

#include <CLI/CLI.hpp>

namespace dlrm {

/// An upper limit that no job reaches.
constexpr int kMostRanks = 65536;

/// A number above 0, and at most an exbibyte.
inline CLI::Validator gibibytes() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && value <= 0x1p30;
        return good ? std::string() : "needs a number of GiB above 0, at most 2^30, not " + text;
      },
      "");
}

}  // namespace dlrm
