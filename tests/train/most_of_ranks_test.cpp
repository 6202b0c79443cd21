#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "train/summarise.h"

namespace dlrm {
namespace {

TEST(Summary, StagesHaveTheMostOfAnyRank) {
  run_on_threads(3, [](Communicator& comm) {
    std::map<std::string, double> own = {{"both ways", comm.rank() + 1.5},
                                         {"back", 7.0 - comm.rank()}};
    if (comm.rank() == 1) own["alone"] = 0.25;
    if (comm.rank() == 2) own.erase("back");
    const std::map<std::string, double> most = {{"alone", 0.25}, {"back", 7}, {"both ways", 3.5}};
    EXPECT_EQ(most_of_ranks(comm, own), most);
  });
}

}  // namespace
}  // namespace dlrm
