// Chunks of long runs on a GPU, which are summed by as many warps as the arguments allow.
#ifdef DLRM_WITH_CUDA
#include <algorithm>
#include <numeric>

#include "dlrm/ops/ops.h"

#include "device/gpu_fixture.h"
#include "ops/cuda/embedding_lists.h"

namespace dlrm {
namespace {

/// Runs longer than a chunk, whose chunks are summed by fewer warps than there are jobs.
class ChunkJobs : public OnGpu {
 protected:
  static constexpr int64_t kWidth = 70;

  /// The weights after SGD with the gradients of `length` occurrences of every row. If `a_warp` is
  /// given, a single block sums so many runs in each warp.
  std::vector<float> update(int64_t length, uint32_t most_jobs, bool over_link,
                            int64_t table_rows = 3, uint32_t a_warp = 0) {
    std::vector<int64_t> rows, starts{0};
    std::vector<Occurrence> occurrences;
    for (int64_t r = 0; r < table_rows; ++r) {
      rows.push_back(r);
      for (int32_t i = 0; i < length; ++i) occurrences.push_back({0, i % 7});
      starts.push_back(static_cast<int64_t>(occurrences.size()));
    }
    const auto weights = upload(std::vector<float>(table_rows * kWidth, 0.0f));
    std::vector<float> gradient(7 * kWidth);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 13) - 6;
    const auto pooled = upload(gradient);
    const auto row_array = upload(rows), start_array = upload(starts);
    const auto occurrence_array = upload(occurrences);
    const auto count = upload(std::vector<int64_t>{table_rows});
    RowTable table;
    table.weights = weights.data();
    table.rows = table_rows;
    table.width = table.stride = table.state_stride = kWidth;
    cuda::UpdateLists of;
    const BagGradient bags{{pooled.data(), DType::kFloat32, 7, kWidth}, nullptr};
    of.add(kernels::update_shard(table),
           {row_array.view(), start_array.view(), occurrence_array.view(), count.view()},
           {&bags, 1});
    of.finish();
    if (a_warp > 0) of.run_blocks = {0, of.most_run_blocks = 1, a_warp};
    const auto gradients = upload(of.gradients);
    of.place_gradients(gradients.data());
    const auto shards = upload(of.shards);
    const auto search_blocks = upload(of.search_blocks), run_blocks = upload(of.run_blocks);
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    const auto used = upload(std::vector<kernels::LongCounts>(1));
    const Array<kernels::LongRun> long_runs(*device, size(of.room.runs), "test");
    const Array<kernels::ChunkJob> jobs(*device, size(of.room.jobs), "test");
    const Array<float> sums(*device, size(of.room.sums), "test");
    kernels::UpdateList list{};
    list.shards = shards.data();
    list.search_blocks = search_blocks.data();
    list.run_blocks = run_blocks.data();
    list.count = 1;
    list.long_runs = long_runs.data();
    list.jobs = jobs.data();
    list.sums = sums.data();
    list.used = used.data();
    list.most_long_runs = static_cast<uint32_t>(of.room.runs);
    list.most_jobs = most_jobs;
    const Array<uint32_t> counted_blocks(*device, 3, "test");
    list.counted_blocks = counted_blocks.data();
    kernels::find_long_runs(list, of.search_blocks.back(), native());
    if (a_warp == 0) list.run_blocks = list.counted_blocks;
    OptimizerStep step;
    step.lr = 1;
    over_link ? kernels::update_runs_over_link(step, list, of.most_run_blocks, native())
              : kernels::update_runs(step, list, of.most_run_blocks, native());
    return download(weights.data(), table_rows * kWidth);
  }

  /// The same in exact numbers.
  static std::vector<float> updated(size_t length, int64_t table_rows = 3) {
    std::vector<float> weights(table_rows * kWidth);
    for (size_t i = 0; i < weights.size(); ++i) {
      for (size_t k = 0; k < length; ++k) {
        weights[i] -= static_cast<float>((k % 7 * kWidth + i % kWidth) % 13) - 6;
      }
    }
    return weights;
  }
};

TEST_F(ChunkJobs, OfMoreWarpsThanTheGridHasAreAllDone) {
  const std::vector<float> want = updated(2500);
  for (const uint32_t most_jobs : {27u, 9u, 1u}) {  // of 3 rows, 3 chunks, 3 pieces
    EXPECT_EQ(update(2500, most_jobs, false), want) << most_jobs;
    EXPECT_EQ(update(2500, most_jobs, true), want) << most_jobs;
  }
}

TEST_F(ChunkJobs, OfOneRunMayBeMoreThanAWarpHasLanes) {
  EXPECT_EQ(update(12000, 108, false), updated(12000));  // of 3 rows, 12 chunks, 3 pieces
}

TEST_F(ChunkJobs, AreBesideWarpsThatSumMoreRunsThanTheyHaveLanes) {
  // One block: each of its four warps takes 40 runs.
  const std::vector<float> want = updated(3, 150);
  EXPECT_EQ(update(3, 0, false, 150, 40), want);
  EXPECT_EQ(update(3, 0, true, 150, 40), want);
}

}  // namespace
}  // namespace dlrm
#endif
