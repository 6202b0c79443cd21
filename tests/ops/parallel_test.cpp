#include "ops/cpu/parallel.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "fixture.h"

namespace dlrm::cpu {
namespace {

TEST(Parts, AreAtLeastOneAndAtMostTheThreads) {
  for (const int threads : {1, 3, 64}) {
    for (const int64_t work : {int64_t{0}, int64_t{1}, int64_t{399}, int64_t{1} << 40}) {
      for (const int64_t grain : {0, 1, 100}) {
        EXPECT_GE(parts_for(threads, work, grain), 1);
        EXPECT_LE(parts_for(threads, work, grain), threads);
      }
    }
  }
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

TEST(Parallel, RangesCoverEachElementOnce) {
  for (const int threads : {1, 2, 4}) {
    for (const int64_t size : {-1, 0, 1, 2, 5, 7, 100}) {
      for (const int64_t cost : {1, 50, 1000}) {
        int64_t next = 0;
        for (const auto& [begin, end] : ranges_of(threads, size, cost, 100)) {
          EXPECT_EQ(begin, next);
          EXPECT_LT(begin, end);
          next = end;
        }
        EXPECT_EQ(next, std::max<int64_t>(0, size));
      }
    }
  }
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
  EXPECT_EQ(machine.cpu({"avx2", 3})->name(), "cpu avx2");
  EXPECT_EQ(machine.cpu({"avx2", 3})->threads(), 3);
}

}  // namespace
}  // namespace dlrm::cpu
