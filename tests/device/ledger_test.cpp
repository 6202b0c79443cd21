#include "device/ledger.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

int cells[16];  // their addresses stand for allocations

TEST(Ledger, HoldersAreListedLargestFirst) {
  Ledger ledger;
  ledger.add(&cells[0], 100, "a");
  ledger.add(&cells[1], 300, "b");
  ledger.add(&cells[2], 250, "a");
  EXPECT_EQ(ledger.holders(), "a 350 B, b 300 B");
  EXPECT_EQ(ledger.in_use(), 650u);
}

TEST(Ledger, SmallHoldersAreSummed) {
  Ledger ledger;
  for (int i = 0; i < 8; ++i) {
    ledger.add(&cells[i], static_cast<size_t>(1000 >> i),
               std::string(1, static_cast<char>('a' + i)).c_str());
  }
  EXPECT_EQ(ledger.holders(), "a 1000 B, b 500 B, c 250 B, d 125 B, e 62 B, f 31 B, 2 others 22 B");
}

TEST(Ledger, FreedMemoryLeavesThePeak) {
  Ledger ledger;
  ledger.add(&cells[0], 100, "a");
  ledger.add(&cells[1], 50, "b");
  EXPECT_EQ(ledger.remove(&cells[0]), 100u);
  EXPECT_EQ(ledger.remove(&cells[0]), 0u);
  EXPECT_EQ(ledger.holders(), "b 50 B");
  EXPECT_EQ(ledger.in_use(), 50u);
  EXPECT_EQ(ledger.peak(), 150u);
}

TEST(Ledger, HoldersOfEqualSizesAreListedByName) {
  Ledger ledger;
  for (int i = 0; i < 7; ++i) {
    ledger.add(&cells[i], 10, std::string(1, "dbgafce"[i]).c_str());
  }
  EXPECT_EQ(ledger.holders(), "a 10 B, b 10 B, c 10 B, d 10 B, e 10 B, f 10 B, 1 others 10 B");
}

TEST(Ledger, NoHoldersReadAsNothing) {
  Ledger ledger;
  EXPECT_EQ(ledger.holders(), "nothing");
  ledger.add(&cells[0], 1, "a");
  ledger.remove(&cells[0]);
  EXPECT_EQ(ledger.holders(), "nothing");
}

}  // namespace
}  // namespace dlrm
