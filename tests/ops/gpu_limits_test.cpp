// Kernels beyond their limits: several bags, jobs or passes for each lane group, warp or block. The
// arguments set low limits, so that few rows reach them.
#ifdef DLRM_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "dlrm/ops/ops.h"

#include "device/gpu_fixture.h"
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
    kernels::pool_bags(groups.data(), first_block.data(), 1, blocks, DType::kFloat32, native());
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

/// An error that names what was refused. Empty without one.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// A group with room for `ids` ids and as much memory as the lists look at: none.
BagGroup group_of(int64_t bags, int64_t width, int64_t ids) {
  BagGroup group;
  group.table.rows = 10;
  group.table.width = group.table.stride = width;
  group.bags = bags;
  group.pooled = {nullptr, DType::kFloat32, bags, width};
  group.capacity = ids;
  return group;
}

TEST(LookupLists, TakeBagsTogetherIfTheyFillTheGpuSeveralTimes) {
  const auto together = [](const BagGroup& group) {
    cuda::LookupLists lists;
    lists.set({&group, 1}, false);
    const kernels::LookupGroup& g = lists.groups[0];
    EXPECT_EQ(lists.first_block.back(), kernels::lookup_blocks(g));
    return g.bags_together;
  };
  // A row of 128 floats takes a warp.
  EXPECT_EQ(together(group_of(32768, 128, 32768)), 1);
  EXPECT_EQ(together(group_of(32769, 128, 32769)), 2);
  EXPECT_EQ(together(group_of(100'000, 128, 100'000)), 4);
  EXPECT_EQ(together(group_of(2'000'000, 128, 2'000'000)), 8);
  EXPECT_EQ(together(group_of(2'000'000, 16, 2'000'000)), 8);
  EXPECT_EQ(together(group_of(200'000, 16, 200'000)), 1);
  // Long bags stay apart.
  EXPECT_EQ(together(group_of(2'000'000, 128, 2'000'000 * 64)), 2);
  EXPECT_EQ(together(group_of(2'000'000, 128, 2'000'000 * 128)), 1);
  // A row of 256 floats takes two warps, and the number of ids may be unknown.
  EXPECT_EQ(together(group_of(16384, 256, 0)), 1);
  EXPECT_EQ(together(group_of(16385, 256, 0)), 2);
}

TEST(LookupLists, CountTheBagsOfAllGroupsThatTheyTake) {
  cuda::LookupLists lists;
  const auto together = [&](const std::vector<BagGroup>& groups) {
    lists.set(groups, false);
    std::vector<int> found;
    uint32_t blocks = 0;
    EXPECT_EQ(lists.first_block.size(), lists.groups.size() + 1);
    for (size_t i = 0; i < lists.groups.size(); ++i) {
      EXPECT_EQ(lists.first_block.at(i), blocks);
      blocks += kernels::lookup_blocks(lists.groups[i]);
      found.push_back(lists.groups[i].bags_together);
    }
    EXPECT_EQ(lists.first_block.back(), blocks);
    return found;
  };
  const BagGroup some = group_of(20000, 128, 20000), few = group_of(2000, 128, 2000 * 128);
  BagGroup on_host = some, narrow = some;
  on_host.table.on_host = true;
  narrow.pooled = Matrix(nullptr, DType::kBFloat16, 20000, 128);
  using Found = std::vector<int>;
  EXPECT_EQ(together({some, some, few}), (Found{2, 2, 1}));
  // The bags of the groups before are forgotten.
  EXPECT_EQ(together({few, some, some}), (Found{1, 2, 2}));
  EXPECT_EQ(together({some}), (Found{1}));
  EXPECT_EQ(together({on_host, some, narrow, group_of(0, 128, 0), group_of(90000, 0, 90000), few}),
            (Found{1, 1}));
  EXPECT_EQ(together({}), Found{});
}

using ManyRows = OnGpu;

/// A grid has at most 65535 blocks down.
TEST_F(ManyRows, AreTakenInSeveralPasses) {
  const auto ops = make_cuda_ops(*device, *stream, CudaOpsOptions());
  const Matrix x(nullptr, DType::kFloat32, 70'000, 2048, 2056);
  ASSERT_TRUE(stream->begin_capture());  // nothing is executed
  EXPECT_EQ(refusal([&] { ops->convert(x, x); }), "");
  stream->abandon_capture();
}

TEST(TableLists, LeaveOutEmptyTablesAndForgetThoseOfTheCallBefore) {
  std::vector<float> touched(3000);
  const auto update = [&](int64_t rows, int64_t width) {
    TableUpdate u;
    u.table.rows = rows, u.table.width = u.table.stride = width;
    u.gradients = {{nullptr, rows, width}, {touched.data(), static_cast<size_t>(rows)}};
    return u;
  };
  cuda::TableLists lists;
  lists.set(std::vector<TableUpdate>{update(3000, 8), update(9, 0), update(0, 8), update(70, 128)});
  ASSERT_EQ(lists.tables.size(), 2u);
  const uint32_t first = kernels::table_blocks(lists.tables[0]);
  EXPECT_EQ(lists.tables[0].rows, 3000);
  EXPECT_EQ(lists.tables[1].rows, 70);
  // A block has eight warps. Two lanes take a row of 8 columns, and a warp one of 128.
  EXPECT_EQ(lists.first_block, (std::vector<uint32_t>{0, first, first + 9}));
  EXPECT_EQ(first, 24u);
  lists.set(std::vector<TableUpdate>{update(1, 8)});
  EXPECT_EQ(lists.first_block, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(lists.tables.size(), 1u);
}

using ListStarts = OnGpu;

TEST_F(ListStarts, AreTheSumsOfMoreListsThanABlockHasThreads) {
  constexpr int32_t kLists = 700;
  std::vector<int64_t> offsets{0};
  for (int32_t i = 0; i < kLists; ++i) offsets.push_back(offsets.back() + i % 5);
  const auto offset_array = upload(offsets);
  std::vector<kernels::IdList> lists(kLists);
  for (int32_t i = 0; i < kLists; ++i) {
    lists[static_cast<size_t>(i)].offsets = offset_array.data() + i;
    lists[static_cast<size_t>(i)].bags = 1;
  }
  const auto list_array = upload(lists);
  const Array<int64_t> starts(*device, offsets.size(), "test");
  kernels::Grouping<uint32_t> all{};
  all.lists = list_array.data();
  all.list_count = kLists;
  all.list_starts = starts.data();
  for (int i = 0; i < 20; ++i) {  // in the emulator, threads run in another order each time
    kernels::write_keys(all, 0, native());
    EXPECT_EQ(download(starts.data(), offsets.size()), offsets);
  }
}

TEST(GroupingLists, RefuseMoreIdsThanThereIsRoomForAndMoreBagsThanAreNumbered) {
  std::vector<int64_t> rows(9), starts(10), count(1);
  std::vector<Occurrence> occurrences(9);
  std::vector<IdGroup> groups = {{nullptr, nullptr, 3, 4}, {nullptr, nullptr, 5, 5}};
  ShardUpdate shard;
  shard.table.rows = 10;
  shard.groups = groups;
  shard.runs = {rows, starts, occurrences, count};
  cuda::GroupingLists lists;
  lists.set({&shard, 1});
  EXPECT_EQ(lists.capacity, 9);
  EXPECT_EQ(lists.bags_each, 0);
  EXPECT_EQ(lists.rows, 10u);
  EXPECT_EQ(lists.lists.at(1).first_bag, 3u);
  EXPECT_EQ(lists.lists.at(1).slot, 4);
  EXPECT_EQ(lists.lists.at(1).group, 1);
  groups[1].capacity = 6;
  EXPECT_NE(refusal([&] {
              lists.set({&shard, 1});
            }).find("room for 9 of 10 ids"),
            std::string::npos);
  groups = {{nullptr, nullptr, (int64_t{1} << 32) - 2, 4}, {nullptr, nullptr, 1, 5}};
  lists.set({&shard, 1});
  EXPECT_EQ(lists.capacity, 9);  // nothing is left of the calls before
  EXPECT_EQ(lists.rows, 10u);
  EXPECT_EQ(lists.lists.size(), 2u);
  EXPECT_EQ(lists.shards.size(), 1u);
  EXPECT_EQ(lists.first_block.size(), 3u);
  EXPECT_EQ(lists.lists.at(1).slot, 4);
  EXPECT_EQ(lists.lists.at(1).first_bag, 4294967294u);
  groups[1].bags = 2;
  EXPECT_NE(refusal([&] {
              lists.set({&shard, 1});
            }).find("4294967294 bags and more in one update"),
            std::string::npos);
}

TEST(GroupingLists, KnowWhetherAllListsHaveTheSameNumberOfBags) {
  std::vector<int64_t> rows(90), starts(91), count(1);
  std::vector<Occurrence> occurrences(90);
  const auto each = [&](const std::vector<int64_t>& bags) {
    std::vector<IdGroup> groups;
    for (const int64_t n : bags) groups.push_back({nullptr, nullptr, n, n});
    ShardUpdate shard;
    shard.table.rows = 10;
    shard.groups = groups;
    shard.runs = {rows, starts, occurrences, count};
    const std::vector<ShardUpdate> twice{shard, shard};
    cuda::GroupingLists lists;
    lists.set(twice);
    EXPECT_EQ(lists.rows, 20u);
    EXPECT_EQ(lists.shards.at(1).key_base, 10u);
    return lists.bags_each;
  };
  EXPECT_EQ(each({4, 4, 4}), 4);
  EXPECT_EQ(each({4, 0, 4}), 4);  // a list without bags is left out
  EXPECT_EQ(each({4, 4, 5}), 0);
  EXPECT_EQ(each({5, 4, 4}), 0);
}

alignas(64) float memory[64];

TEST(Alignment, OfLookupsIsThatOfEveryRow) {
  const auto group = [](DType type, int64_t weights_at, int64_t stride, int64_t pooled_at,
                        int64_t pooled_stride, int64_t width, DType pooled = DType::kFloat32) {
    BagGroup g;
    g.table.weights = reinterpret_cast<char*>(memory) + weights_at;
    g.table.type = type;
    g.table.rows = 10;
    g.table.width = width;
    g.table.stride = stride;
    g.bags = 2;
    g.pooled = {memory + pooled_at, pooled, 2, width, pooled_stride};
    return kernels::lookup_group(g);
  };
  const DType wide = DType::kFloat32, narrow = DType::kBFloat16;
  EXPECT_TRUE(group(wide, 16, 8, 0, 8, 8).aligned);
  EXPECT_FALSE(group(wide, 8, 8, 0, 8, 8).aligned);
  EXPECT_FALSE(group(wide, 16, 9, 0, 8, 8).aligned);
  EXPECT_TRUE(group(narrow, 16, 8, 0, 8, 8).aligned);
  EXPECT_FALSE(group(narrow, 8, 8, 0, 8, 8).aligned);
  EXPECT_FALSE(group(narrow, 16, 12, 0, 8, 8).aligned);  // 24 bytes
  EXPECT_TRUE(group(wide, 0, 8, 4, 12, 8).pooled_aligned);
  EXPECT_FALSE(group(wide, 0, 8, 2, 12, 8).pooled_aligned);
  EXPECT_FALSE(group(wide, 0, 8, 4, 10, 8).pooled_aligned);
  // Rounded to bf16, four columns of fp32 rows are 8 bytes, and eight of bf16 rows are 16.
  EXPECT_TRUE(group(wide, 0, 8, 2, 12, 8, narrow).pooled_aligned);
  EXPECT_FALSE(group(wide, 0, 8, 1, 12, 8, narrow).pooled_aligned);
  EXPECT_FALSE(group(wide, 0, 8, 2, 10, 8, narrow).pooled_aligned);
  EXPECT_TRUE(group(narrow, 0, 8, 4, 16, 8, narrow).pooled_aligned);
  EXPECT_FALSE(group(narrow, 0, 8, 2, 16, 8, narrow).pooled_aligned);
  EXPECT_FALSE(group(narrow, 0, 8, 4, 12, 8, narrow).pooled_aligned);
}

TEST(Alignment, OfUpdatesIsThatOfEveryArray) {
  RowTable good;
  good.weights = memory;
  good.rows = 4;
  good.width = 6, good.stride = good.state_stride = 8;
  good.state1 = memory + 16, good.state2 = memory + 32;
  const auto flags = [&](const std::function<void(RowTable&)>& change) {
    RowTable t = good;
    change(t);
    const kernels::UpdateShard s = kernels::update_shard(t);
    return std::pair(s.weights_aligned != 0, s.state_aligned != 0);
  };
  EXPECT_EQ(flags([](RowTable&) {}), std::pair(true, true));
  EXPECT_EQ(flags([](RowTable& t) { t.weights = memory + 1; }), std::pair(false, true));
  EXPECT_EQ(flags([](RowTable& t) { t.stride = 7; }), std::pair(false, true));
  EXPECT_EQ(flags([](RowTable& t) { t.state1 = memory + 17; }), std::pair(true, false));
  EXPECT_EQ(flags([](RowTable& t) { t.state2 = memory + 34; }), std::pair(true, false));
  EXPECT_EQ(flags([](RowTable& t) { t.state2 = nullptr; }), std::pair(true, true));
  EXPECT_EQ(flags([](RowTable& t) { t.state_stride = 6; }), std::pair(true, false));
  // Four bf16 numbers are 8 bytes.
  EXPECT_EQ(flags([](RowTable& t) { t.type = DType::kBFloat16, t.weights = memory + 2; }),
            std::pair(true, true));
  EXPECT_EQ(flags([](RowTable& t) { t.type = DType::kBFloat16, t.weights = memory + 1; }),
            std::pair(false, true));
}

TEST(Alignment, OfGradientsIsThatOfEveryRow) {
  const auto aligned = [](int64_t at, int64_t stride, DType type = DType::kFloat32) {
    std::vector<int64_t> rows(2), starts(3), count(1);
    std::vector<Occurrence> occurrences(2);
    const BagGradient gradient{{memory + at, type, 2, 5, stride}, nullptr};
    cuda::UpdateLists lists;
    lists.clear();
    lists.add({}, {rows, starts, occurrences, count}, {&gradient, 1});
    return lists.shards.at(0).gradients_aligned != 0;
  };
  EXPECT_TRUE(aligned(0, 8));
  EXPECT_TRUE(aligned(4, 12));
  EXPECT_FALSE(aligned(2, 8));
  EXPECT_FALSE(aligned(4, 10));
  // Four bf16 numbers are 8 bytes.
  EXPECT_TRUE(aligned(2, 8, DType::kBFloat16));
  EXPECT_FALSE(aligned(1, 8, DType::kBFloat16));
  EXPECT_FALSE(aligned(2, 10, DType::kBFloat16));
}

/// Operations on a GPU whose results are compared with the reference.
using CheckedOnGpu = OnGpu;

TEST_F(CheckedOnGpu, AnUpdateTakesTheHyperparametersOfTheDevice) {
  const auto checked =
      make_checked_ops(make_cuda_ops(*device, *stream, CudaOpsOptions()), *device, *stream);
  const auto w = upload(std::vector<float>(20, 1.0f)), g = upload(std::vector<float>(20, 0.5f));
  const auto s1 = upload(std::vector<float>(20, 0.1f)), s2 = upload(std::vector<float>(20, 0.2f));
  const auto now = upload(std::vector<StepHyperparams>{{0.25f, 0.5f, 0.25f, 3}});
  OptimizerStep step;
  step.rule = OptimizerRule::kAdam;
  step.lr = 0.01f, step.eps = 1e-8f, step.beta1 = 0.9f, step.beta2 = 0.99f;
  step.device_hyperparams = now.data();
  EXPECT_EQ(
      refusal([&] { checked->dense_update(step, w.view(), g.view(), s1.view(), s2.view(), {}); }),
      "");
  const float m = 0.9f * 0.1f + 0.1f * 0.5f, v = 0.99f * 0.2f + 0.01f * 0.25f;
  EXPECT_NEAR(download(w.data(), 20)[7], 1 - 0.25f * (m / 0.5f) / std::sqrt(v / 0.25f), 1e-5);
}

/// A table of two rows. Each occurs in more than a chunk of ids, always with the same gradient.
struct HotTable {
  static constexpr int64_t kLength = 1500, kWidth = 5;
  Array<float> weights, pooled;
  Array<int64_t> rows, starts, count;
  Array<Occurrence> occurrences;
  BagGradient gradient{{pooled.data(), DType::kFloat32, 1, kWidth}, nullptr};

  ShardUpdate update(bool on_host) const {
    ShardUpdate u;
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
  const std::vector<ShardUpdate> updates{on_host.update(true), on_device.update(false)};
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
