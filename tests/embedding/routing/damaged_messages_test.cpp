// Messages of ids whose lengths do not add up, or are given in another way than the receiver's
// routing allows.
#include <gtest/gtest.h>

#include "changed_exchanges.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

const std::string kDamaged = "another rank sent a damaged message of ids";

struct Sent {
  RoutingMode mode;
  const char* plan;
  std::vector<int64_t> lengths;  ///< of the 8 bags of each rank
  int threads = 1;
};

/// The error of both ranks if byte `at` of the message of rank 1 to rank 0 is `byte`.
std::string error_of_damage(const Sent& sent, size_t at, char byte) {
  EmbeddingOptions options =
      options_for({table_of("t", 9, 2, {1}, Pooling::kSum)}, OptimizerRule::kSgd);
  options.routing.mode = sent.mode;
  return run_error_of([&] {
    run_on_threads(2, [&](Communicator& comm) {
      bool armed = false;
      int started = 0;
      ChangedExchanges spoiling(comm, [&](Communicator& inner, Exchange exchange, int) {
        if (armed && ++started == 2)
          static_cast<char*>(const_cast<void*>(exchange.send))[at] = byte;
        return inner.start_exchange(std::move(exchange));
      });
      Rank rank(spoiling, sent.threads);
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options,
                                   plan_of(sent.plan, options.tables, 2));
      armed = comm.rank() == 1;
      std::vector<int64_t> offsets{0};
      for (const int64_t length : sent.lengths) offsets.push_back(offsets.back() + length);
      const std::vector<int64_t> ids(static_cast<size_t>(offsets.back()), 3);
      embeddings.route({part_of(16, comm.rank(), 2), 16, ids, offsets});
      embeddings.await_ids();
    });
  });
}

TEST(DamagedMessages, OfFixedRoutingHaveCodedLengths) {
  constexpr char kEqual = 0, kCoded = 2;
  const Sent full{RoutingMode::kFixed, "row", {1, 1, 1, 1, 1, 1, 1, 1}};
  const Sent empty{RoutingMode::kFixed, "row", {0, 0, 0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(error_of_damage(full, 0, 1 << 2 | kEqual), "");
  EXPECT_EQ(error_of_damage(full, 0, 8 << 2 | kCoded), kDamaged);
  EXPECT_EQ(error_of_damage(empty, 0, kEqual), "");
  EXPECT_EQ(error_of_damage(empty, 0, kCoded), kDamaged);
}

TEST(DamagedMessages, OfExactRoutingToAPartOfTheRowsHaveEqualLengths) {
  // The ids are in rank 0's rows, so rank 1 receives none.
  const Sent sent{RoutingMode::kExact, "row", {1, 1, 1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(error_of_damage(sent, 0, 8 << 2 | 2), "");
  EXPECT_EQ(error_of_damage(sent, 0, 1 << 2 | 0), kDamaged);
}

TEST(DamagedMessages, HaveListedLengthsOfMoreIds) {
  constexpr size_t kFirstLength = 8;  // behind the header
  for (const RoutingMode mode : {RoutingMode::kFixed, RoutingMode::kExact}) {
    for (const char* plan : {"table", "row"}) {
      if (mode == RoutingMode::kExact && plan == std::string("row")) continue;  // codes
      const Sent few{mode, plan, {2, 0, 1, 1, 1, 1, 1, 1}};
      EXPECT_EQ(error_of_damage(few, kFirstLength, 2), "");
      EXPECT_EQ(error_of_damage(few, kFirstLength, 3), kDamaged);
      // So many ids are shared among threads.
      const Sent many{mode, plan, {1, 0, 20000, 1, 1, 1, 1, 1}, 3};
      EXPECT_EQ(error_of_damage(many, kFirstLength, 1), "");
      EXPECT_EQ(error_of_damage(many, kFirstLength, 3), kDamaged);
    }
  }
}

}  // namespace
}  // namespace dlrm::testing
