#include "embedding/routing/id_buckets.h"

#include <vector>

#include <gtest/gtest.h>

#include "dlrm/wire/sample_code.h"

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

constexpr int64_t kBagSamples = 997;
constexpr int kBagRanks = 4;

/// Features with short, long and partly empty bags. Owners return only non-empty bags of the last
/// one of "long", although its bags fill several chunks.
Tables cut_tables() {
  return {table_of("short", 50, 4, {1}, Pooling::kMean),
          table_of("long", 3001, 4, {1, 60, 2}, Pooling::kMean),
          table_of("one", 1, 1, {1}, Pooling::kSum)};
}

/// A rank's bags: lengths differ, some bags are empty, and rows repeat.
struct Bags {
  explicit Bags(const EmbeddingLayout& layout) {
    for (const FeaturePlace& place : layout.features) {
      for (int64_t i = 0; i < kBagSamples; ++i) {
        const int64_t length = place.hotness == 1 ? 1 : (7 * i + place.column) % 60;
        for (int64_t k = 0; k < length; ++k) {
          ids.push_back((i * i * 31 + k * 17 + place.column) % place.rows);
        }
        offsets.push_back(static_cast<int64_t>(ids.size()));
      }
    }
  }
  LocalBags local() const { return {{0, kBagSamples}, kBagSamples, ids, offsets}; }
  std::vector<int64_t> ids, offsets{0};
};

/// What a group receives: an entry for each id, and the bags that its owner returns.
struct Received {
  std::vector<int64_t> ids;
  std::vector<int32_t> samples, returned;
  std::vector<float> scales;
};

std::vector<Received> expected(const EmbeddingLayout& layout, const Bags& bags) {
  std::vector<Received> all;
  for (const OwnerLayout& owner : layout.owners) {
    for (const RoutedGroup& group : owner.groups) {
      const Slice& slice = owner.slices[static_cast<size_t>(group.slice)];
      const bool mean = layout.features[static_cast<size_t>(group.feature)].mean;
      Received& received = all.emplace_back();
      for (int64_t i = 0; i < kBagSamples; ++i) {
        const auto bag = static_cast<size_t>(group.feature * kBagSamples + i);
        for (int64_t k = bags.offsets[bag]; k < bags.offsets[bag + 1]; ++k) {
          const int64_t id = bags.ids[static_cast<size_t>(k)];
          if (id < slice.rows.begin || id >= slice.rows.end) continue;
          received.ids.push_back(id - slice.rows.begin);
          received.samples.push_back(static_cast<int32_t>(i));
          const bool first = received.returned.empty() || received.returned.back() != i;
          if (!group.skips_empty_bags || !first) continue;
          received.returned.push_back(static_cast<int32_t>(i));
          const auto length = static_cast<float>(bags.offsets[bag + 1] - bags.offsets[bag]);
          if (mean) received.scales.push_back(1.0f / length);
        }
      }
    }
  }
  return all;
}

template <class Id>
void read(const GroupSpan& span, Received& received) {
  const auto* ids = reinterpret_cast<const Id*>(span.ids);
  received.ids.assign(ids, ids + span.header.count);
  const auto bag = [&](int32_t sample, int32_t length) {
    received.samples.insert(received.samples.end(), static_cast<size_t>(length), sample);
  };
  if (span.header.lengths == BagLengths::kCoded) {
    EXPECT_TRUE(read_samples(span.code, kBagSamples, span.header.count,
                             [&](int32_t sample) { bag(sample, 1); }));
    return;
  }
  const bool listed = span.header.lengths == BagLengths::kListed;
  for (int32_t i = 0; i < kBagSamples; ++i) bag(i, listed ? span.lengths[i] : span.header.length);
}

std::vector<Received> bucketed(const EmbeddingLayout& layout, const Bags& all, int64_t id_bytes,
                               int threads) {
  const std::shared_ptr<Device> device = make_cpu_device();
  const LocalBags bags = all.local();
  std::vector<BagScan> scans;
  scan_offsets(layout, bags, threads, scans);
  IdBuckets buckets(layout);
  RequesterSide requester(*device);
  std::vector<IdDestination> destinations(layout.features.size());
  std::vector<Received> received(static_cast<size_t>(layout.groups));
  std::vector<char> means;
  for (const OwnerLayout& owner : layout.owners) {
    for (const RoutedGroup& group : owner.groups) {
      means.push_back(layout.features[static_cast<size_t>(group.feature)].mean);
    }
  }
  for (int batch = 0; batch < 2; ++batch) {  // the second finds the first one's memory
    requester.begin(layout, bags, scans, RequesterSide::Keep::kReplicated,
                    buckets.most_returned(bags, scans), threads, destinations);
    buckets.count(bags, scans, threads);
    const View<const GroupHeader> headers = buckets.headers();
    std::vector<char> message(static_cast<size_t>(message_bytes(headers, kBagSamples, id_bytes)));
    std::vector<GroupSpan> spans(headers.size());
    begin_message(message.data(), headers, kBagSamples, id_bytes, spans);
    requester.place_returned(buckets.returned(), buckets.returned());
    buckets.fill(bags, spans, id_bytes, requester, threads);
    for (size_t g = 0; g < received.size(); ++g) {
      Received& of = received[g] = {};
      if (headers[g].count > 0)
        id_bytes == 8 ? read<int64_t>(spans[g], of) : read<int32_t>(spans[g], of);
      const ReturnedBags& returned = requester.returned[g];
      const int32_t* samples = requester.returned_samples + returned.first;
      of.returned.assign(samples, samples + returned.count);
      const float* scales = requester.returned_scales + returned.first;
      if (means[g]) of.scales.assign(scales, scales + returned.count);
    }
  }
  return received;
}

class Buckets : public ::testing::TestWithParam<const char*> {};

TEST_P(Buckets, HoldTheIdsOfTheirRowsInOrderForAnyNumberOfThreads) {
  const Tables tables = cut_tables();
  const EmbeddingLayout layout(tables, plan_of(GetParam(), tables, kBagRanks), RoutingMode::kExact);
  const Bags bags(layout);
  EXPECT_GT(bags.ids.size(), 50000u);
  const std::vector<Received> want = expected(layout, bags);
  for (const int64_t id_bytes : {4, 8}) {
    for (const int threads : {1, 2, 5}) {
      const std::vector<Received> got = bucketed(layout, bags, id_bytes, threads);
      ASSERT_EQ(got.size(), want.size());
      for (size_t g = 0; g < want.size(); ++g) {
        EXPECT_EQ(got[g].ids, want[g].ids) << "group " << g;
        EXPECT_EQ(got[g].samples, want[g].samples) << "group " << g;
        EXPECT_EQ(got[g].returned, want[g].returned) << "group " << g;
        EXPECT_EQ(got[g].scales, want[g].scales) << "group " << g;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, Buckets,
                         ::testing::Values("table", "row", "column", "grid", "ragged"));

}  // namespace
}  // namespace dlrm::testing
