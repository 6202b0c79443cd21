// Chunks of long runs on a GPU, which are summed by as many warps as the arguments allow.
#ifdef DLRM_WITH_CUDA
#include "dlrm/ops/ops.h"

#include "device/gpu_fixture.h"
#include "ops/cuda/embedding_lists.h"

namespace dlrm {
namespace {

/// Runs longer than a chunk, whose chunks are summed by fewer warps than there are jobs.
class ChunkJobs : public OnGpu {
 protected:
  static constexpr int64_t kRows = 3, kWidth = 70;

  /// The weights after SGD with the gradients of `length` occurrences of every row.
  std::vector<float> update(int64_t length, uint32_t most_jobs, bool over_link) {
    std::vector<int64_t> rows, starts{0};
    std::vector<Occurrence> occurrences;
    for (int64_t r = 0; r < kRows; ++r) {
      rows.push_back(r);
      for (int32_t i = 0; i < length; ++i) occurrences.push_back({0, i % 7});
      starts.push_back(static_cast<int64_t>(occurrences.size()));
    }
    const auto weights = upload(std::vector<float>(kRows * kWidth, 0.0f));
    std::vector<float> gradient(7 * kWidth);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 13) - 6;
    const auto pooled = upload(gradient);
    const auto row_array = upload(rows), start_array = upload(starts);
    const auto occurrence_array = upload(occurrences);
    const auto count = upload(std::vector<int64_t>{kRows});
    RowTable table;
    table.weights = weights.data();
    table.rows = kRows;
    table.width = table.stride = table.state_stride = kWidth;
    cuda::UpdateLists of;
    const BagGradient bags{{pooled.data(), DType::kFloat32, 7, kWidth}, nullptr};
    of.add(kernels::update_shard(table),
           {row_array.view(), start_array.view(), occurrence_array.view(), count.view()},
           {&bags, 1});
    of.finish();
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
    list.runs_a_warp = of.runs_a_warp;
    list.long_runs = long_runs.data();
    list.jobs = jobs.data();
    list.sums = sums.data();
    list.used = used.data();
    list.most_long_runs = static_cast<uint32_t>(of.room.runs);
    list.most_jobs = most_jobs;
    kernels::find_long_runs(list, of.search_blocks.back(), native());
    OptimizerStep step;
    step.lr = 1;
    over_link ? kernels::update_runs_over_link(step, list, of.run_blocks.back(), native())
              : kernels::update_runs(step, list, of.run_blocks.back(), native());
    return download(weights.data(), kRows * kWidth);
  }

  /// The same in exact numbers.
  static std::vector<float> updated(size_t length) {
    std::vector<float> weights(kRows * kWidth);
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

}  // namespace
}  // namespace dlrm
#endif
