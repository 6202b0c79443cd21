#include "dlrm/train/gpu_use.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

/// A driver that returns the given readings in turn.
class Readings final : public UtilisationProbe {
 public:
  explicit Readings(std::vector<std::optional<Utilisation>> all) : all_(std::move(all)) {}
  std::optional<Utilisation> read() override { return all_.at(next_++); }

 private:
  std::vector<std::optional<Utilisation>> all_;
  size_t next_ = 0;
};

GpuUse use_of(std::vector<std::optional<Utilisation>> readings) {
  return GpuUse(std::make_unique<Readings>(std::move(readings)));
}

TEST(GpuUse, SharesAreAveragedAndTheMostMemoryIsKept) {
  GpuUse use = use_of({Utilisation{0.25, 0.5, 300, 1000}, std::nullopt,
                       Utilisation{0.75, 0, 700, 1000}, Utilisation{0.5, 0.25, 400, 1000}});
  use.begin(10);
  for (const double now : {10.25, 10.5, 10.75, 11.0}) use.sample(now);
  ASSERT_TRUE(use.mean());
  EXPECT_EQ(use.mean()->busy_share, 0.5);
  EXPECT_EQ(use.mean()->memory_busy_share, 0.25);
  EXPECT_EQ(use.mean()->memory_used, 700u);
  EXPECT_EQ(use.mean()->memory_total, 1000u);
}

TEST(GpuUse, TheDriverIsReadAtMostFiveTimesASecond) {
  GpuUse use = use_of({Utilisation{1, 1, 1, 1}, Utilisation{0, 1, 1, 1}});
  use.begin(0);
  for (int i = 1; i < 1000; ++i) use.sample(0.0005 * i);  // a third reading would throw
  EXPECT_EQ(use.mean()->busy_share, 0.5);
}

TEST(GpuUse, UseBeforeAPeriodIsLeftOut) {
  GpuUse use = use_of({Utilisation{1, 1, 1, 1}});
  use.begin(5);
  use.sample(5.1);
  EXPECT_FALSE(use.mean());
  use.sample(5.2);
  EXPECT_TRUE(use.mean());
  use.begin(9);
  use.sample(9.1);
}

TEST(GpuUse, WithoutFiguresThereIsNoMean) {
  GpuUse none(nullptr);
  none.begin(0);
  none.sample(1);
  EXPECT_FALSE(none.mean());
  GpuUse silent = use_of({std::nullopt});
  silent.begin(0);
  silent.sample(1);
  EXPECT_FALSE(silent.mean());
}

}  // namespace
}  // namespace dlrm
