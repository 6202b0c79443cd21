#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dlrm/data/batch_source.h"

namespace dlrm {
namespace {

RunConfig config_with(const std::string& source, bool linear) {
  return parse_config(fmt::format(R"(
model:
  dense_features: 2
  top_mlp: [1]
  interaction: concat
  linear: {}
  tables:
    - {{name: a, rows: 90, features: [{{name: b}}, {{name: c, hotness: 3, weights: true}}]}}
    - {{name: d, rows: 7}}
data: {{source: {}, synthetic: {{samples: 25}}}}
train: {{global_batch_size: 10}}
)",
                                  linear, source),
                      "config");
}

/// Batches that are loaded into one object after the other, as during a run.
TEST(LinearPart, ItsBagsAreThoseOfTheFeaturesOnceMore) {
  for (const char* name : {"synthetic", "replay"}) {
    for (const int world : {1, 3}) {
      const auto plain = make_batch_source(config_with(name, false), Split::kTrain, 0, world);
      const auto linear = make_batch_source(config_with(name, true), Split::kTrain, 0, world);
      EXPECT_EQ(linear->plan().samples, plain->plan().samples);
      Batch want, got;
      for (const int64_t t : {0, 2, 1, 4}) {
        plain->load(t, want);
        linear->load(t, got);
        const size_t ids = want.ids.size(), bags = want.offsets.size() - 1;
        ASSERT_EQ(got.ids.size(), 2 * ids);
        ASSERT_EQ(got.offsets.size(), 2 * bags + 1);
        EXPECT_TRUE(std::equal(want.ids.begin(), want.ids.end(), got.ids.begin()));
        EXPECT_TRUE(std::equal(want.ids.begin(), want.ids.end(), got.ids.begin() + ids));
        for (size_t i = 0; i <= bags; ++i) {
          EXPECT_EQ(got.offsets[i], want.offsets[i]);
          EXPECT_EQ(got.offsets[bags + i], want.offsets[i] + static_cast<int64_t>(ids));
        }
        ASSERT_EQ(want.id_weights.size(), ids);
        std::vector<float> twice = want.id_weights;
        twice.insert(twice.end(), want.id_weights.begin(), want.id_weights.end());
        EXPECT_EQ(got.id_weights, twice);
        EXPECT_EQ(got.dense, want.dense);
        EXPECT_EQ(got.labels, want.labels);
      }
    }
  }
}

}  // namespace
}  // namespace dlrm
