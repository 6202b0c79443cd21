#pragma once
#include <cmath>
#include <string>

#include <CLI/CLI.hpp>

namespace dlrm {

/// An upper limit that no job reaches.
constexpr int kMostRanks = 65536;

/// A finite number above 0.
inline CLI::Validator gibibytes() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        const bool good =
            CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0;
        return good ? std::string() : "needs a number of GiB above 0, not " + text;
      },
      "");
}

}  // namespace dlrm
