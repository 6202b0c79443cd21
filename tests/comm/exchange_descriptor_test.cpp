#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/shared/exchange_table.h"

namespace dlrm::comm {
namespace {

TEST(ExchangeDescriptor, AReaderThatIsFastestLeavesNoReaderCounted) {
  constexpr size_t kDescriptors = 1 << 15;
  for (int round = 0; round < 20; ++round) {
    std::vector<ExchangeDescriptor> all(kDescriptors);
    std::thread reader([&] {
      for (size_t i = 0; i < kDescriptors; ++i) {
        while (!all[i].has_sequence(i)) {
        }
        all[i].finish_reading();
      }
    });
    for (size_t i = 0; i < kDescriptors; ++i) all[i].publish(i, 1);
    reader.join();
    for (size_t i = 0; i < kDescriptors; ++i) ASSERT_TRUE(all[i].all_have_read()) << i;
  }
}

}  // namespace
}  // namespace dlrm::comm
