// The arguments that collectives refuse.
#include <exception>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

namespace dlrm::comm {
namespace {

TEST(Refused, AreListsThatDoNotHaveAnEntryForEachRank) {
  const auto comm = make_self_comm();
  char from[8] = {}, to[8] = {};
  const ExchangeLayout good = ExchangeLayout::packed({4}, {4});
  EXPECT_NO_THROW(comm->alltoallv(from, to, good));
  for (int which = 0; which < 4; ++which) {
    ExchangeLayout bad = good;
    std::vector<int64_t>* lists[] = {&bad.send_bytes, &bad.send_offsets, &bad.receive_bytes,
                                     &bad.receive_offsets};
    lists[which]->push_back(0);
    EXPECT_THROW(comm->alltoallv(from, to, bad), std::exception) << which;
  }
  const std::vector<int64_t> one = {4}, two = {4, 4};
  EXPECT_NO_THROW(comm->start_allgatherv(from, to, one, one).wait());
  EXPECT_THROW(comm->start_allgatherv(from, to, two, one), std::exception);
  EXPECT_THROW(comm->start_allgatherv(from, to, one, two), std::exception);
  EXPECT_THROW(comm->broadcast(to, 4, -1), std::exception);
  EXPECT_THROW(comm->broadcast(to, 4, 1), std::exception);
  EXPECT_NO_THROW(comm->broadcast(to, 4, 0));
  EXPECT_THROW(comm->alltoallv(from, to, ExchangeLayout::packed({4}, {3})), std::exception);
  EXPECT_THROW(run_on_threads(0, [](Communicator&) {}), std::exception);
}

TEST(Refused, AreWiresThatAreNoTypeOfTheValues) {
  run_on_threads(2, [](Communicator& comm) {
    std::vector<float> floats(3);
    std::vector<double> doubles(3);
    EXPECT_THROW(comm.start_allreduce<float>(floats, DType::kFloat16), std::exception);
    EXPECT_THROW(comm.start_allreduce<double>(doubles, DType::kBFloat16), std::exception);
    comm.barrier();
  });
}

}  // namespace
}  // namespace dlrm::comm
