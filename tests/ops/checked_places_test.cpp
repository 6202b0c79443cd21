// Each element that an operation writes is made wrong in turn. The checked execution names it, and
// ignores what is no result. A file holds the smallest differences that are found in the first, a
// middle and the last element of each array, and whole errors. Whoever changes a tolerance or a
// text on purpose writes the file anew with DLRM_UPDATE_COUNTS=1.
#include <map>

#include "checked_cases.h"
#include "fixture.h"
#include "pinned_text.h"
#include "spoilt_ops.h"

namespace dlrm {
namespace {

class Spoiling {
 public:
  explicit Spoiling(const CheckedCase& of) : case_(of) {
    auto spoilt = std::make_unique<SpoiltOps>();
    spoilt_ = spoilt.get();
    checked_ = make_checked_ops(std::move(spoilt), *machine_.device, *machine_.stream);
  }

  /// The error if `spoil` is done. Empty without one.
  std::string error_of(const Spoil& spoil) {
    spoilt_->spoil = spoil;
    spoilt_->calls.clear();
    try {
      case_.run(*checked_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kFailure);
      return error.what();
    }
    return "";
  }
  const SpoiltOps& spoilt() const { return *spoilt_; }

  /// The smallest difference that is found at a place.
  std::string smallest(Spoil spoil) {
    uint64_t passes = 0, found = 1;
    const auto finds = [&](uint64_t steps) {
      spoil.steps = steps;
      return !error_of(spoil).empty();
    };
    while (!finds(found)) {
      passes = found;
      if (found == spoilt_->room) return "never";
      found = std::min(2 * found, spoilt_->room);
    }
    while (found - passes > 1) {
      const uint64_t middle = passes + (found - passes) / 2;
      (finds(middle) ? found : passes) = middle;
    }
    finds(found);
    return fmt::format("{:.3g}", spoilt_->difference);
  }

 private:
  const CheckedCase& case_;
  Machine machine_;
  SpoiltOps* spoilt_;
  std::unique_ptr<Ops> checked_;
};

/// The text between the names of the executions and the values.
std::string element_in(const std::string& error) {
  const std::string before = " disagrees with the reference: ";
  const size_t begin = error.find(before);
  if (begin == std::string::npos) return error;
  const std::string rest = error.substr(begin + before.size());
  return rest.substr(0, rest.find(" is "));
}

/// Spoils each place of the calls of a case. Returns the smallest differences and an error.
std::string describe(const CheckedCase& of) {
  Spoiling spoiling(of);
  EXPECT_EQ(spoiling.error_of({}), "") << of.name;
  const std::vector<SpoiltOps::Call> calls = spoiling.spoilt().calls;
  std::string text, example;
  for (size_t call = 0; call < calls.size(); ++call) {
    // The calls before the last one are preparations. What is found there has other names.
    const bool last = call + 1 == calls.size();
    std::vector<std::string> arrays;
    std::map<std::string, std::vector<size_t>> places;
    for (size_t i = 0; i < calls[call].places.size(); ++i) {
      const Place& place = calls[call].places[i];
      const std::string error = spoiling.error_of({call, i, 0});
      if (last) {
        EXPECT_EQ(element_in(error), place.element) << of.name << ", place " << i;
      }
      if (last && example.empty()) example = error;
      if (place.element.empty()) continue;
      if (places[place.array].empty()) arrays.push_back(place.array);
      places[place.array].push_back(i);
    }
    for (const std::string& array : arrays) {
      const std::vector<size_t>& all = places[array];
      text += fmt::format("  {}{}:", last ? "" : calls[call].operation + " before, ", array);
      for (const size_t i : {all.front(), all[all.size() / 2], all.back()}) {
        text += " " + spoiling.smallest({call, i, 1});
      }
      text += "\n";
    }
  }
  return of.name + ": " + example + "\n" + text;
}

TEST(CheckedPlaces, AWrongElementAnywhereIsFoundAndNamed) {
  std::string text;
  for (const CheckedCase& of : checked_cases()) text += describe(of);
  expect_text_of_file(text, DLRM_SOURCE "/tests/ops/checked_places.txt");
}

}  // namespace
}  // namespace dlrm
