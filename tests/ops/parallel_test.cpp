#include "ops/cpu/parallel.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "fixture.h"

namespace dlrm::cpu {
namespace {

TEST(Parts, HaveAtLeastAGrainAndAThreadEach) {
  EXPECT_EQ(parts_for(4, 0, 100), 1);
  EXPECT_EQ(parts_for(4, 199, 100), 1);
  EXPECT_EQ(parts_for(4, 200, 100), 2);
  EXPECT_EQ(parts_for(4, 399, 100), 3);
  EXPECT_EQ(parts_for(4, 400, 100), 4);
  EXPECT_EQ(parts_for(4, 100000, 100), 4);
  EXPECT_EQ(parts_for(1, 100000, 100), 1);
  EXPECT_EQ(parts_for(3, 2, 0), 2);
  EXPECT_EQ(parts_for(64, int64_t{1} << 40, 1), 64);
}

TEST(Shares, AreAtMostEightForEachPart) {
  EXPECT_EQ(shares_for(1, 100000, 10), 1);
  EXPECT_EQ(shares_for(4, 39, 10), 4);
  EXPECT_EQ(shares_for(4, 59, 10), 5);
  EXPECT_EQ(shares_for(4, 310, 10), 31);
  EXPECT_EQ(shares_for(4, 330, 10), 32);
}

void expect_each_part_and_share_once() {
  for (const Parts parts : {Parts{0, 9}, {1, 9}, {2, 9}, {5, 9}, {9, 9}}) {
    std::vector<std::atomic<int>> runs(10), after(10);
    parallel(parts, [&](int part) { ++runs[static_cast<size_t>(part)]; });
    for (int p = 0; p < 10; ++p) {
      EXPECT_EQ(runs[static_cast<size_t>(p)], p < std::max<int>(1, parts)) << parts;
    }
    std::atomic<int> bodies{0};
    parallel_then(
        parts, [&](int) { ++bodies; },
        [&](int part) {
          ++after[static_cast<size_t>(part)];
          EXPECT_EQ(bodies, std::max<int>(1, parts));
        });
    for (int p = 0; p < 10; ++p) {
      EXPECT_EQ(after[static_cast<size_t>(p)], p < std::max<int>(1, parts)) << parts;
    }
    std::vector<std::atomic<int>> shares(20);
    parallel_shares(parts, 20, [&](int part, int share) {
      EXPECT_LT(part, std::max<int>(1, parts));
      ++shares[static_cast<size_t>(share)];
    });
    for (const auto& share : shares) EXPECT_EQ(share, 1) << parts;
  }
}

TEST(Parallel, EachPartAndShareIsRunOnce) { expect_each_part_and_share_once(); }

TEST(Parallel, EachPartAndShareIsRunOnceIfOneThreadIsGranted) {
  const int before = omp_get_max_active_levels();
  omp_set_max_active_levels(0);
  expect_each_part_and_share_once();
  omp_set_max_active_levels(before);
}

std::set<std::pair<int64_t, int64_t>> ranges_of(int threads, int64_t size, int64_t cost,
                                                int64_t grain) {
  std::mutex mutex;
  std::set<std::pair<int64_t, int64_t>> ranges;
  parallel_ranges(threads, size, cost, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace(begin, end);
  });
  return ranges;
}

TEST(Parallel, RangesAreNearEqualAndTheLastIsLonger) {
  using Ranges = std::set<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(ranges_of(4, 0, 1, 1), Ranges{});
  EXPECT_EQ(ranges_of(4, -1, 1, 1), Ranges{});
  EXPECT_EQ(ranges_of(4, 7, 1, 100), (Ranges{{0, 7}}));
  EXPECT_EQ(ranges_of(4, 7, 50, 100), (Ranges{{0, 2}, {2, 4}, {4, 7}}));
  EXPECT_EQ(ranges_of(4, 2, 1000, 10), (Ranges{{0, 1}, {1, 2}}));
  EXPECT_EQ(ranges_of(2, 5, 1000, 10), (Ranges{{0, 2}, {2, 5}}));
}

TEST(CpuProducts, RestoreTheCallersThreads) {
  const int before = omp_get_max_threads();
  Machine machine;
  Cells x = Cells::random(200, 200, 1), w = Cells::random(200, 200, 2), y(200, 200);
  machine.cpu({"", before + 1})
      ->linear_forward(x.matrix(), w.matrix(), {}, Activation::kNone, y.matrix(), {});
  EXPECT_EQ(omp_get_max_threads(), before);
}

/// Products are cut into tiles of 8 rows and 16 columns at least, of any rest.
TEST(CpuProducts, OfAnyNumberOfThreadsAgreeWithTheReference) {
  const Machine machine;
  for (const int threads : {2, 3, 7, 8, 16}) {
    const auto ops = make_checked_ops(machine.cpu({"", threads}), *machine.device, *machine.stream);
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const auto& [batch, in, out] :
           {std::array<int64_t, 3>{300, 129, 33}, {9, 700, 210}, {1030, 17, 150}, {131, 300, 15}}) {
        Cells x = Cells::random(batch, in, 1, type), w = Cells::random(out, in, 2, type);
        Cells y = Cells::random(batch, out, 3, type), dx = Cells::random(batch, in, 4, type);
        std::vector<float> bias(static_cast<size_t>(out), 0.5f), dw(static_cast<size_t>(out * in));
        std::vector<float> dbias(bias.size());
        EXPECT_NO_THROW({
          ops->linear_forward(x.matrix(), w.matrix(), bias, Activation::kNone, y.matrix(), {});
          ops->run(LinearBackwardInput{y.matrix(), w.matrix(), dx.matrix(), {}});
          ops->linear_backward_weight(y.matrix(), x.matrix(), {dw.data(), out, in}, dbias);
        }) << threads
           << " threads, " << batch << " x " << in << " x " << out;
      }
    }
  }
}

TEST(CpuOps, NeedAThreadAndTellTheirInstructions) {
  Machine machine;
  EXPECT_THROW(machine.cpu({"", 0}), std::exception);
  EXPECT_THROW(machine.cpu({"sse", 1}), Error);
  EXPECT_EQ(machine.cpu({"baseline", 3})->name(), "cpu baseline");
  EXPECT_EQ(machine.cpu({"baseline", 3})->threads(), 3);
}

}  // namespace
}  // namespace dlrm::cpu
