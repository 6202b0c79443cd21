// Kernels beyond their limits: several bags, jobs or passes for each lane group, warp or block. The
// arguments set low limits, so that few rows reach them.
#ifdef DLRM_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "dlrm/ops/ops.h"

#include "device/gpu_fixture.h"
#include "error_of.h"
#include "kernels/group_rows.h"
#include "ops/cuda/embedding_lists.h"

namespace dlrm {
namespace {

/// Bags of one feature, with empty ones next to each other, in device memory.
class BagsTogether : public OnGpu {
 protected:
  /// The pooled vectors [bags, width] if `together` bags share a lane group.
  std::vector<float> pool(DType type, int64_t width, bool mean, int together) {
    constexpr int64_t kRows = 40, kBags = 61;
    std::mt19937 generator(5);
    std::vector<int64_t> ids, offsets{0};
    std::vector<float> scale;
    for (int64_t b = 0; b < kBags; ++b) {
      const uint32_t length = b % 5 < 2 ? 0 : generator() % 7;
      for (uint32_t i = 0; i < length; ++i) ids.push_back(generator() % kRows);
      offsets.push_back(static_cast<int64_t>(ids.size()));
      scale.push_back(1.0f / static_cast<float>(b + 2));
    }
    GpuMatrix table(*device, type, kRows, width, width);
    std::normal_distribution<float> normal;
    table.fill([&](int64_t, int64_t) { return normal(generator); });
    table.upload(*transfer);
    const auto id_array = upload(ids), offset_array = upload(offsets);
    const auto scale_array = upload(scale);
    const auto pooled = upload(std::vector<float>(kBags * width, 77.0f));
    BagGroup group;
    group.table.weights = table.matrix().data;
    group.table.type = type;
    group.table.rows = kRows;
    group.table.width = group.table.stride = width;
    group.ids = id_array.data();
    group.offsets = offset_array.data();
    group.bags = kBags;
    group.scale = mean ? scale_array.data() : nullptr;
    group.pooled = {pooled.data(), DType::kFloat32, kBags, width};
    kernels::LookupGroup lookup = kernels::lookup_group(group);
    lookup.bags_together = together;
    const uint32_t blocks = kernels::lookup_blocks(lookup);
    const auto groups = upload(std::vector{lookup});
    const auto first_block = upload(std::vector<uint32_t>{0, blocks});
    kernels::pool_bags(groups.data(), first_block.data(), 1, blocks, DType::kFloat32, false,
                       native());
    return download(pooled.data(), kBags * width);
  }
};

TEST_F(BagsTogether, ArePooledToTheBitsOfBagsAlone) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t width : {3, 16, 128, 130}) {
      for (const bool mean : {false, true}) {
        const std::vector<float> alone = pool(type, width, mean, 1);
        for (const int together : {2, 4, 8}) {
          const std::vector<float> got = pool(type, width, mean, together);
          EXPECT_EQ(std::memcmp(got.data(), alone.data(), got.size() * sizeof(float)), 0)
              << name_of(type) << " width " << width << " mean " << mean << " together "
              << together;
        }
      }
    }
  }
}

using ManyRows = OnGpu;

/// A grid has at most 65535 blocks down.
TEST_F(ManyRows, AreTakenInSeveralPasses) {
  const auto ops = make_cuda_ops(*device, *stream, CudaOpsOptions());
  const Matrix x(nullptr, DType::kFloat32, 70'000, 2048, 2056);
  ASSERT_TRUE(stream->begin_capture());  // nothing is executed
  EXPECT_EQ(error_of([&] { ops->convert(x, x); }), "");
  stream->abandon_capture();
}

/// A table of two rows. Each occurs in more than a chunk of ids, always with the same gradient.
struct HotTable {
  static constexpr int64_t kLength = 1500, kWidth = 5;
  Array<float> weights, pooled;
  Array<int64_t> rows, starts, count;
  Array<Occurrence> occurrences;
  BagGradient gradient{{pooled.data(), DType::kFloat32, 1, kWidth}, nullptr};

  UpdatedShard update(bool on_host) const {
    UpdatedShard u;
    u.table.weights = weights.data();
    u.table.rows = 2;
    u.table.width = u.table.stride = u.table.state_stride = kWidth;
    u.table.on_host = on_host;
    u.gradients = {&gradient, 1};
    u.runs = {rows.view(), starts.view(), occurrences.view(), count.view()};
    return u;
  }
};

class BothMemories : public OnGpu {
 protected:
  HotTable hot_table(float gradient) {
    constexpr int64_t kLength = HotTable::kLength, kWidth = HotTable::kWidth;
    return {upload(std::vector<float>(2 * kWidth, 0.0f)),
            upload(std::vector<float>(kWidth, gradient)),
            upload(std::vector<int64_t>{0, 1}),
            upload(std::vector<int64_t>{0, kLength, 2 * kLength}),
            upload(std::vector<int64_t>{2}),
            upload(std::vector<Occurrence>(2 * kLength))};
  }
};

TEST_F(BothMemories, LongRunsOfUpdatesInTurnAreSummedApart) {
  const HotTable on_host = hot_table(1), on_device = hot_table(3);
  const std::vector<UpdatedShard> updates{on_host.update(true), on_device.update(false)};
  const auto ops = make_cuda_ops(*device, *stream, CudaOpsOptions());
  OptimizerStep step;
  step.lr = 1;
  for (int i = 0; i < 8; ++i) ops->embedding_bag_updates(step, updates, [] {});
  for (const auto& [table, gradient] : {std::pair(&on_host, 1.0f), std::pair(&on_device, 3.0f)}) {
    EXPECT_EQ(download(table->weights.data(), 10),
              std::vector<float>(10, -8.0f * HotTable::kLength * gradient));
  }
}

}  // namespace
}  // namespace dlrm
#endif
