// Bytes that choose the options of a config, which is then planned.
#include <iterator>

#include "fuzz.h"
#include "plan/any_plan.h"

namespace dlrm::fuzz {
namespace {

/// Each byte chooses once. After the last one, the first value is chosen.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : next_(data), end_(data + size) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    const size_t choice = next_ == end_ ? 0 : *next_++ % values.size();
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(choice));
  }

 private:
  const uint8_t* next_;
  const uint8_t* end_;
};

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm;
  fuzz::Bytes draw(data, size);
  const plan_test::AnyRun run = plan_test::any_run(draw);
  const std::string wrong = plan_test::wrong_with(run);
  if (!wrong.empty()) fuzz::fail("{}: {} ranks\n{}", wrong, run.world, run.yaml);
  return 0;
}
