// A middle tier while the slower store writes what it pushed out.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMiddleRows = 100, kMiddleSlots = 4, kMiddleRecordBytes = 24;

/// A store in memory that tells when it writes, and what it is asked for.
class TellingRecords final : public RecordStore {
 public:
  struct Told {
    std::function<void()> before_write = [] {};
    std::vector<Rows> written, read;
    int arranged = 0, cleared = 0;
  };
  explicit TellingRecords(Told& told) : told_(told) {}

  std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                         uint8_t* written) override {
    told_.read.emplace_back(rows.begin(), rows.end());
    return store_->start_read(rows, out, written);
  }
  void write(View<const int64_t> rows, const std::byte* records) override {
    told_.before_write();
    told_.written.emplace_back(rows.begin(), rows.end());
    store_->write(rows, records);
  }
  void arrange() override { ++told_.arranged; }
  void clear() override {
    ++told_.cleared;
    store_->clear();
  }
  TierTraffic traffic() const override { return store_->traffic(); }
  std::string description() const override { return "a slow store"; }

 private:
  Told& told_;
  const std::unique_ptr<RecordStore> store_ = make_memory_records(kMiddleRows, kMiddleRecordBytes);
};

class MiddleTier : public ::testing::Test {
 protected:
  void write(const Rows& rows, int64_t version) {
    write_version(*store_, rows, kMiddleRecordBytes, version);
  }
  Rows wrong(const Rows& rows, int64_t version) {
    return wrong_rows(*store_, rows, kMiddleRecordBytes, [&](int64_t) { return version; });
  }
  int64_t found() const { return store_->traffic().found_in_middle; }

  TellingRecords::Told told_;
  const std::unique_ptr<RecordStore> store_ = make_middle_records(
      kMiddleRows, kMiddleRecordBytes, kMiddleSlots, std::make_unique<TellingRecords>(told_));
};

TEST_F(MiddleTier, RecordsAreReadOnTheirWayToTheSlowerStore) {
  write({1, 2, 3, 4}, 1);
  told_.before_write = [&] {
    EXPECT_THAT(wrong({1, 2, 3, 4}, 1), IsEmpty());
    EXPECT_THAT(wrong({7, 8, 9}, 2), IsEmpty());
  };
  write({7, 8, 9}, 2);
  EXPECT_EQ(found(), 7);
  ASSERT_THAT(told_.written, SizeIs(2));
  EXPECT_THAT(told_.written[0], IsEmpty());
  EXPECT_THAT(told_.written[1], SizeIs(3));
  EXPECT_THAT(told_.read, ElementsAre(IsEmpty(), IsEmpty()));
  // The slower store has them now.
  told_.before_write = [] {};
  told_.read.clear();
  EXPECT_THAT(wrong({1, 2, 3, 4}, 1), IsEmpty());
  EXPECT_EQ(found(), 8);
  EXPECT_THAT(told_.read, ElementsAre(told_.written[1]));
}

TEST_F(MiddleTier, ArrangesAndForgetsBothTiers) {
  write(row_range(10, 19), 1);
  store_->arrange();
  EXPECT_EQ(told_.arranged, 1);
  EXPECT_EQ(told_.cleared, 0);
  store_->clear();
  EXPECT_EQ(told_.cleared, 1);
  EXPECT_THAT(wrong(row_range(10, 19), -1), IsEmpty());
  told_.written.clear();
  write({20, 21, 22, 23}, 2);
  EXPECT_THAT(told_.written, ElementsAre(IsEmpty())) << "its slots were empty";
  EXPECT_EQ(store_->description(), "host memory over a slow store");
}

}  // namespace
}  // namespace dlrm::testing
