#include "embedding/tiers/record_stream.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "dlrm/comm/communicator.h"

#include "embedding/records/stores.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using ::testing::IsEmpty;

/// Slots of a GPU for two column shards: bf16 of width 1 with states of 4 bytes, and of width 5.
/// Records are in pinned memory.
class KernelRecordsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 300'000, kSlots = 250'000;  // lists of two blocks

  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    comm_ = make_self_comm();
    rank_ = std::make_unique<Rank>(*comm_, OnGpu());
    TableConfig table;
    table.name = "table";
    table.rows = kRows;
    table.dim = 6;
    table.dtype = DType::kBFloat16;
    OptimizerConfig adagrad;
    adagrad.type = OptimizerRule::kAdagrad;
    for (const Range columns : {Range{0, 1}, Range{1, 6}}) {
      const RowShape shape(table, adagrad, 1, {0, kRows}, columns);
      RowTable slots = shape.table;
      slots.stride = table_stride(slots.width, slots.type);
      slots.state_stride = table_stride(slots.width, DType::kFloat32);
      slots.weights = memory(slots.stride * 2);
      slots.state1 = static_cast<float*>(memory(slots.state_stride * 4));
      layout_.add(shape, slots);
    }
    layout_.set_row_of(static_cast<int64_t*>(memory(8)));
    stream_ = std::make_unique<RecordStream>(*rank_->device, *rank_->stream, 2);
    stream_->reserve(layout_, kSlots);
    store_ = make_pinned_records(*rank_->device, layout_, kRows, 2);
    stream_->begin(nullptr);
  }
  void* memory(int64_t slot_bytes) {
    memory_.emplace_back(*rank_->device, static_cast<size_t>(kSlots * slot_bytes), "slots");
    return memory_.back().data();
  }
  /// Every slot, and as many rows, both in a random order.
  std::pair<Rows, Rows> slots_and_rows() {
    Rows slots = row_range(0, kSlots), rows = row_range(0, kRows);
    std::mt19937_64 random(1);
    std::shuffle(slots.begin(), slots.end(), random);
    std::shuffle(rows.begin(), rows.end(), random);
    rows.resize(slots.size());
    return {slots, rows};
  }
  static void no_draw(int64_t row, std::byte*) { ADD_FAILURE() << "row " << row << " is drawn"; }

  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Rank> rank_;
  std::vector<Buffer> memory_;
  SlotRecords layout_;
  std::unique_ptr<RecordStore> store_;
  std::unique_ptr<RecordStream> stream_;
};

TEST_F(KernelRecordsTest, GoToSlotsWithTheNumbersOfTheirRows) {
  write_version(*store_, row_range(0, kRows), layout_.bytes(), 3);
  const auto [slots, rows] = slots_and_rows();
  store_->for_kernels()->reads(rows, no_draw);
  stream_->to_slots(layout_, *store_->for_kernels(), slots, rows);
  std::vector<std::byte> records(slots.size() * static_cast<size_t>(layout_.bytes()));
  stream_->gather(layout_, slots, records.data());
  EXPECT_EQ(records, read_records(*store_, rows, layout_.bytes()).bytes);
  std::vector<int64_t> row_of(kSlots);
  Transfer(*rank_->device, *rank_->stream)
      .to_host(row_of.data(), layout_.row_of(), kSlots * sizeof(int64_t));
  Rows expected(kSlots);
  for (size_t i = 0; i < slots.size(); ++i) expected[static_cast<size_t>(slots[i])] = rows[i];
  EXPECT_EQ(row_of, expected);
  EXPECT_EQ(store_->traffic().read.rows, 2 * kSlots);
}

TEST_F(KernelRecordsTest, ComeFromSlots) {
  write_version(*store_, row_range(0, kRows, 2), layout_.bytes(), 3);
  auto [slots, rows] = slots_and_rows();
  const int64_t some = 1001;
  slots.resize(some);
  rows.resize(some);
  std::vector<std::byte> records;
  for (const int64_t row : rows) {
    for (int64_t at = 0; at < layout_.bytes(); ++at) records.push_back(byte_of(row, 4, at));
  }
  stream_->scatter(layout_, records.data(), slots, rows);
  store_->for_kernels()->writes(rows);
  stream_->from_slots(layout_, *store_->for_kernels(), slots, rows);
  stream_->finish();
  std::sort(rows.begin(), rows.end());
  const auto version_of = [&](int64_t row) {
    if (std::binary_search(rows.begin(), rows.end(), row)) return 4;
    return row % 2 == 0 ? 3 : -1;
  };
  EXPECT_THAT(wrong_rows(*store_, row_range(0, kRows), layout_.bytes(), version_of), IsEmpty());
}

}  // namespace
}  // namespace dlrm::testing
