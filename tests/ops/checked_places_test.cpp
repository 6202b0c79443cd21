// Each element that an operation writes is made wrong in turn. The checked execution names it, and
// ignores what is no result.
#include "checked_cases.h"
#include "fixture.h"
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

TEST(CheckedPlaces, AWrongElementAnywhereIsFoundAndNamed) {
  for (const CheckedCase& of : checked_cases()) {
    Spoiling spoiling(of);
    EXPECT_EQ(spoiling.error_of({}), "") << of.name;
    // The calls before the last one are preparations.
    const std::vector<SpoiltOps::Call> calls = spoiling.spoilt().calls;
    const size_t last = calls.size() - 1;
    for (size_t i = 0; i < calls[last].places.size(); ++i) {
      const std::string error = spoiling.error_of({last, i});
      EXPECT_EQ(element_in(error), calls[last].places[i].element) << of.name << ", place " << i;
    }
  }
}

}  // namespace
}  // namespace dlrm
