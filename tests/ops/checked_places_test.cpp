// Each element that an operation writes is made wrong in turn. The checked execution finds it, and
// ignores what is no result.
#include "checked_cases.h"
#include "error_of.h"
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
    return run_error_of([&] { case_.run(*checked_); });
  }
  const SpoiltOps& spoilt() const { return *spoilt_; }

 private:
  const CheckedCase& case_;
  Machine machine_;
  SpoiltOps* spoilt_;
  std::unique_ptr<Ops> checked_;
};

TEST(CheckedPlaces, AWrongElementAnywhereIsFound) {
  for (const CheckedCase& of : checked_cases()) {
    Spoiling spoiling(of);
    EXPECT_EQ(spoiling.error_of({}), "") << of.name;
    // The calls before the last one are preparations.
    const std::vector<SpoiltOps::Call> calls = spoiling.spoilt().calls;
    const size_t last = calls.size() - 1;
    for (size_t i = 0; i < calls[last].places.size(); ++i) {
      const Place& place = calls[last].places[i];
      const std::string error = spoiling.error_of({last, i});
      EXPECT_EQ(!error.empty(), place.matters) << of.name << ", place " << i << ": " << error;
      if (!place.matters) continue;
      EXPECT_NE(error.find(calls[last].operation), std::string::npos) << error;
      if (!place.is_float) continue;
      EXPECT_NE(spoiling.error_of({last, i, true}), "") << of.name << ", place " << i;
    }
  }
}

}  // namespace
}  // namespace dlrm
