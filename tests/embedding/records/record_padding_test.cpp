#include "embedding/records/record_padding.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/plan/plan.h"

namespace dlrm::testing {
namespace {

/// The layout of two column shards: of widths 1 and 5, with two states each.
SlotRecords padded_layout_of(DType type) {
  TableConfig table;
  table.rows = 10;
  table.dim = 6;
  table.dtype = type;
  OptimizerConfig adam;
  adam.type = OptimizerRule::kAdam;
  SlotRecords layout;
  for (const Range columns : {Range{0, 1}, Range{1, 6}}) {
    const RowShape shape(table, adam, 1, {0, 10}, columns);
    RowTable slots = shape.table;
    slots.stride = table_stride(slots.width, slots.type);
    slots.state_stride = table_stride(slots.width, DType::kFloat32);
    layout.add(shape, slots);
  }
  return layout;
}

TEST(RecordPadding, PartsAreAlignedAndPaddedWithZeros) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const SlotRecords layout = padded_layout_of(type);
    const RecordPadding padding(layout);
    ASSERT_EQ(padding.parts().size(), 6u);
    std::vector<std::byte> record(static_cast<size_t>(layout.bytes()));
    for (size_t i = 0; i < record.size(); ++i) record[i] = static_cast<std::byte>(i + 1);
    std::vector<std::byte> padded(static_cast<size_t>(padding.bytes()), std::byte{0xff});
    padding.pack(record.data(), padded.data());
    int64_t from = 0, end = 0;
    for (size_t p = 0; p < 6; ++p) {
      const RecordPadding::Part& part = padding.parts()[p];
      const SlotRecords::Field& field = layout.fields()[p];
      EXPECT_EQ(part.from, from);
      EXPECT_EQ(part.bytes, field.bytes());
      EXPECT_EQ(part.at, end);
      EXPECT_EQ(part.at % 16, 0);
      EXPECT_EQ(part.padded, field.stride);
      for (int64_t i = 0; i < part.padded; ++i) {
        EXPECT_EQ(padded[static_cast<size_t>(part.at + i)],
                  i < part.bytes ? record[static_cast<size_t>(part.from + i)] : std::byte{0});
      }
      from += part.bytes;
      end = (part.at + part.padded + 15) / 16 * 16;
    }
    EXPECT_EQ(from, layout.bytes());
    EXPECT_EQ(padding.bytes(), end);
    std::vector<std::byte> unpacked(record.size());
    padding.unpack(padded.data(), unpacked.data());
    EXPECT_EQ(unpacked, record);
  }
}

TEST(RecordPadding, RecordsOfOnePartHaveNone) {
  const RecordPadding padding(13);
  EXPECT_EQ(padding.bytes(), 13);
  std::vector<std::byte> record(13), packed(14, std::byte{0xff}), unpacked(13);
  for (size_t i = 0; i < record.size(); ++i) record[i] = static_cast<std::byte>(i + 1);
  padding.pack(record.data(), packed.data());
  EXPECT_EQ(packed.back(), std::byte{0xff});
  padding.unpack(packed.data(), unpacked.data());
  EXPECT_EQ(unpacked, record);
  for (const auto& [bytes, aligned] : {std::pair(0, 0), std::pair(1, 16), std::pair(15, 16),
                                       std::pair(16, 16), std::pair(17, 32)}) {
    EXPECT_EQ(RecordPadding::aligned(bytes), aligned);
  }
}

}  // namespace
}  // namespace dlrm::testing
