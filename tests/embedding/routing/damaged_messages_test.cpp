// Messages of ids whose lengths are given in another way than the receiver's routing allows.
#include <gtest/gtest.h>

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

/// Changes the first byte of the second exchange that is started after `armed` is set.
class SpoilingComm final : public Communicator {
 public:
  struct Plan {
    bool armed = false;
    int started = 0;
    char byte = 0;
  };
  SpoilingComm(Communicator& inner, std::shared_ptr<Plan> plan)
      : Communicator(inner.engine()), inner_(inner), plan_(std::move(plan)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::unique_ptr<Communicator> duplicate() override {
    auto own = inner_.duplicate();
    auto result = std::make_unique<SpoilingComm>(*own, plan_);
    result->owned_ = std::move(own);
    return result;
  }
  Pending start_exchange(Exchange exchange) override {
    if (plan_->armed && ++plan_->started == 2) {
      *static_cast<char*>(const_cast<void*>(exchange.send)) = plan_->byte;
    }
    return inner_.start_exchange(std::move(exchange));
  }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<Plan> plan_;
};

/// The error of both ranks if the message of rank 1, with 8 bags of so many ids, begins with
/// `byte`.
std::string error_of(RoutingMode mode, int64_t bag_length, char byte) {
  EmbeddingOptions options =
      options_for({table_of("t", 9, 2, {1}, Pooling::kSum)}, OptimizerRule::kSgd);
  options.routing.mode = mode;
  try {
    run_on_threads(2, [&](Communicator& comm) {
      const auto plan = std::make_shared<SpoilingComm::Plan>();
      SpoilingComm spoiling(comm, plan);
      Rank rank(spoiling);
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options,
                                   plan_of("row", options.tables, 2));
      plan->armed = comm.rank() == 1;
      plan->byte = byte;
      const std::vector<int64_t> ids(static_cast<size_t>(8 * bag_length), 3);
      std::vector<int64_t> offsets;
      for (int64_t i = 0; i <= 8; ++i) offsets.push_back(i * bag_length);
      embeddings.route({part_of(16, comm.rank(), 2), 16, ids, offsets});
      embeddings.await_ids();
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailure);
    return error.what();
  }
  return "none";
}

TEST(DamagedMessages, OfFixedRoutingHaveCodedLengths) {
  const std::string damaged = "another rank sent a damaged message of ids";
  constexpr char kEqual = 0, kCoded = 2;
  EXPECT_EQ(error_of(RoutingMode::kFixed, 1, 1 << 2 | kEqual), "none");
  EXPECT_EQ(error_of(RoutingMode::kFixed, 1, 8 << 2 | kCoded), damaged);
  EXPECT_EQ(error_of(RoutingMode::kFixed, 0, kEqual), "none");
  EXPECT_EQ(error_of(RoutingMode::kFixed, 0, kCoded), damaged);
}

TEST(DamagedMessages, OfExactRoutingToAPartOfTheRowsHaveEqualLengths) {
  // The ids are in rank 0's rows, so rank 1 receives none.
  EXPECT_EQ(error_of(RoutingMode::kExact, 1, 8 << 2 | 2), "none");
  EXPECT_EQ(error_of(RoutingMode::kExact, 1, 1 << 2 | 0),
            "another rank sent a damaged message of ids");
}

}  // namespace
}  // namespace dlrm::testing
