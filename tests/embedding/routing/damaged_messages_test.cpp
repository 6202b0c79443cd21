// Messages of ids whose lengths are given in another way than the receiver's routing allows.
#include <gtest/gtest.h>

#include "changed_exchanges.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

/// The error of both ranks if the message of rank 1, with 8 bags of so many ids, begins with
/// `byte`.
std::string error_of_damage(RoutingMode mode, int64_t bag_length, char byte) {
  EmbeddingOptions options =
      options_for({table_of("t", 9, 2, {1}, Pooling::kSum)}, OptimizerRule::kSgd);
  options.routing.mode = mode;
  return run_error_of([&] {
    run_on_threads(2, [&](Communicator& comm) {
      bool armed = false;
      int started = 0;
      ChangedExchanges spoiling(comm, [&](Communicator& inner, Exchange exchange, int) {
        if (armed && ++started == 2) *static_cast<char*>(const_cast<void*>(exchange.send)) = byte;
        return inner.start_exchange(std::move(exchange));
      });
      Rank rank(spoiling);
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options,
                                   plan_of("row", options.tables, 2));
      armed = comm.rank() == 1;
      const std::vector<int64_t> ids(static_cast<size_t>(8 * bag_length), 3);
      std::vector<int64_t> offsets;
      for (int64_t i = 0; i <= 8; ++i) offsets.push_back(i * bag_length);
      embeddings.route({part_of(16, comm.rank(), 2), 16, ids, offsets});
      embeddings.await_ids();
    });
  });
}

TEST(DamagedMessages, OfFixedRoutingHaveCodedLengths) {
  const std::string damaged = "another rank sent a damaged message of ids";
  constexpr char kEqual = 0, kCoded = 2;
  EXPECT_EQ(error_of_damage(RoutingMode::kFixed, 1, 1 << 2 | kEqual), "");
  EXPECT_EQ(error_of_damage(RoutingMode::kFixed, 1, 8 << 2 | kCoded), damaged);
  EXPECT_EQ(error_of_damage(RoutingMode::kFixed, 0, kEqual), "");
  EXPECT_EQ(error_of_damage(RoutingMode::kFixed, 0, kCoded), damaged);
}

TEST(DamagedMessages, OfExactRoutingToAPartOfTheRowsHaveEqualLengths) {
  // The ids are in rank 0's rows, so rank 1 receives none.
  EXPECT_EQ(error_of_damage(RoutingMode::kExact, 1, 8 << 2 | 2), "");
  EXPECT_EQ(error_of_damage(RoutingMode::kExact, 1, 1 << 2 | 0),
            "another rank sent a damaged message of ids");
}

}  // namespace
}  // namespace dlrm::testing
