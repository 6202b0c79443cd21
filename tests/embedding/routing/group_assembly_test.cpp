#include "embedding/routing/group_assembly.h"

#include <cstring>

#include <gtest/gtest.h>

#include "dlrm/wire/sample_code.h"

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

/// Rank 0 of two has all rows of table "whole", and the first rows of "cut".
struct Messages {
  explicit Messages(RoutingMode mode) : layout(tables, plan, mode) {}

  /// A message of 3 samples: 3 ids of "whole", and of "cut" ids of samples 0 and 2. `spoil` may
  /// change the headers, and then the codes.
  std::vector<char> message(const std::function<void(std::vector<GroupHeader>&)>& spoil_headers,
                            bool spoil_code) const {
    std::vector<GroupHeader> headers{{BagLengths::kEqual, 1, 3}, {BagLengths::kCoded, 0, 2}};
    spoil_headers(headers);
    std::vector<char> bytes(static_cast<size_t>(message_bytes(headers, 3, 4)));
    std::vector<GroupSpan> spans(headers.size());
    begin_message(bytes.data(), headers, 3, 4, spans);
    for (const GroupSpan& span : spans) {
      for (int32_t k = 0; k < span.header.count; ++k) std::memcpy(span.ids + 4 * k, &k, 4);
      std::vector<int32_t> samples{0, 2, 2};
      samples.resize(static_cast<size_t>(span.header.count));
      if (span.header.lengths == BagLengths::kCoded) write_samples(samples, 3, span.code);
      if (span.header.lengths == BagLengths::kListed) std::fill_n(span.lengths, 3, 1);
      if (spoil_code && span.header.lengths == BagLengths::kCoded) {
        std::memset(span.code, 0, static_cast<size_t>(SampleCode(3, span.header.count).bytes()));
      }
    }
    return bytes;
  }
  /// The error of a rank that gets this message from rank 1, and none of its own samples.
  std::string error_of(std::vector<char> bytes) const {
    const auto device = make_cpu_device();
    OwnerSide owner(*device);
    GroupAssembly assembly(layout, 0, 4);
    const std::vector<GroupAssembly::Message> messages{{{}, 0}, {bytes, 3}};
    try {
      owner.begin();
      assembly.begin(messages, owner);
      assembly.finish(2, owner);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const Tables tables{table_of("whole", 9, 2, {1}, Pooling::kSum),
                      table_of("cut", 10, 2, {1}, Pooling::kSum)};
  const Plan plan{2, {{0, {0, 9}, {0, 2}, 0}, {1, {0, 6}, {0, 2}, 0}, {1, {6, 10}, {0, 2}, 1}}, {}};
  const EmbeddingLayout layout;
};

TEST(GroupAssembly, RefusesLengthsAndCodesThatItsSlicesCannotHave) {
  const std::string damaged = "another rank sent a damaged message of ids";
  for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
    const Messages of(mode);
    EXPECT_EQ(of.layout.owner(0).groups[1].skips_empty_bags, mode == RoutingMode::kExact);
    EXPECT_EQ(of.error_of(of.message([](auto&) {}, false)), "no error");
    EXPECT_EQ(of.error_of(of.message([](auto&) {}, true)), damaged);
    EXPECT_EQ(of.error_of(of.message(
                  [](auto& h) {
                    h[0] = {BagLengths::kCoded, 0, 3};
                  },
                  false)),
              damaged);
    EXPECT_EQ(of.error_of(of.message(
                  [](auto& h) {
                    h[1] = {BagLengths::kEqual, 1, 3};
                  },
                  false)),
              damaged);
    EXPECT_EQ(of.error_of(of.message(
                  [](auto& h) {
                    h[1] = {BagLengths::kListed, 0, 3};
                  },
                  false)),
              damaged);
  }
}

// Rank 0 has no samples, and the bags of "whole" have one id each.
TEST(GroupAssembly, HasRoomOnlyForIdsOfSamplesWhoseBagsVary) {
  const Messages of(RoutingMode::kExact);
  std::vector<char> bytes = of.message([](auto&) {}, false);
  const auto device = make_cpu_device();
  OwnerSide owner(*device);
  GroupAssembly assembly(of.layout, 0, 4);
  assembly.keep_sizes();
  owner.begin();
  assembly.begin(std::vector<GroupAssembly::Message>{{{}, 0}, {bytes, 3}}, owner);
  assembly.finish(1, owner);
  std::vector<int64_t> capacities;
  for (const IdGroup& piece : owner.pieces) capacities.push_back(piece.capacity);
  // Those of "whole" by rank, and that of "cut", which has 2 ids.
  EXPECT_EQ(capacities, (std::vector<int64_t>{0, 3, 2 + 4 + 9}));
}

}  // namespace
}  // namespace dlrm::testing
