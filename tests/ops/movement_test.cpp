#include <algorithm>
#include <limits>
#include <random>

#include "fixture.h"

namespace dlrm {
namespace {

using Movement = EveryExecution;

const DType kMovedTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

BlockCopy block(Cells& src, Cells& dst, int64_t cols) {
  BlockCopy b;
  b.src = src.matrix().data;
  b.dst = dst.matrix().data;
  b.src_type = src.type();
  b.dst_type = dst.type();
  b.src_stride = src.stride();
  b.dst_stride = dst.stride();
  b.rows = src.rows();
  b.cols = cols;
  return b;
}

TEST_P(Movement, BlocksAreCopiedScaledAddedAndConverted) {
  std::vector<float> scale(120);
  for (size_t i = 0; i < scale.size(); ++i) scale[i] = 1.0f / static_cast<float>(i + 1);
  for (const DType from : kMovedTypes) {
    for (const DType to : kMovedTypes) {
      for (const bool scaled : {false, true}) {
        for (const bool accumulate : {false, true}) {
          Cells src = Cells::random(120, 301, 1, from);
          Cells got = Cells::random(120, 301, 2, to), want = got;
          BlockCopy b = block(src, got, 300), expected = block(src, want, 300);
          b.accumulate = expected.accumulate = accumulate;
          if (scaled) b.scale = expected.scale = scale.data();
          ops->copy_blocks({&b, 1});
          reference->copy_blocks({&expected, 1});
          EXPECT_TRUE(close(got, want)) << name_of(from) << " to " << name_of(to);
          EXPECT_EQ(got.at(119, 300), want.at(119, 300));
        }
      }
    }
  }
}

/// Blocks that overlap in every way, with and without lists of rows. Several threads share those of
/// CPUs.
TEST_P(Movement, BlocksThatOverlapAreAppliedInOrder) {
  const int64_t high = GetParam().copies() ? 1 : 16, wide = GetParam().copies() ? 1 : 4;
  const int64_t all_rows = 40 * high, all_cols = 24 * wide;
  const auto one_by_one = Machine().cpu({"avx2", 1});
  Cells sources[] = {Cells::random(all_rows, all_cols, 1),
                     Cells::random(all_rows, all_cols, 2, DType::kBFloat16)};
  const Cells start = Cells::random(all_rows, all_cols, 3);
  std::vector<int32_t> even, mixed;
  for (int32_t r = 0; r < all_rows; r += 2) even.push_back(r);
  for (int32_t r = 0; r < all_rows; ++r) mixed.push_back(r * 37 % static_cast<int32_t>(all_rows));
  const std::vector<float> scale(static_cast<size_t>(all_rows), 0.3f);
  std::mt19937 random(1);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int set = 0; set < 200; ++set) {
    Cells got = start, want = start;
    std::vector<BlockCopy> list(5);
    for (BlockCopy& b : list) {
      const bool listed = below(4) == 0, same = below(3) == 0;
      const int64_t row = listed || same ? 0 : below(3) * 5, column = same ? 0 : below(3) * 4;
      Cells& src = sources[below(4) == 0];
      b = block(src, got, same ? 16 * wide : 1 + below(16 * wide));
      b.src = src.matrix().element(below(5), 0), b.dst = got.matrix().element(row, column);
      b.rows = listed ? 15 * high : same && below(3) > 0 ? 30 * high : 1 + below(20 * high);
      if (listed) b.dst_rows = even.data(), b.dst_height = 30 * high;
      if (below(4) == 0) b.src = src.matrix().data, b.src_rows = mixed.data();
      if (below(4) == 0) b.scale = scale.data();
      b.accumulate = below(2) == 0;
    }
    std::vector<BlockCopy> expected = list;
    for (BlockCopy& b : expected) {
      const auto offset = static_cast<char*>(b.dst) - static_cast<char*>(got.matrix().data);
      b.dst = static_cast<char*>(want.matrix().data) + offset;
    }
    ops->copy_blocks(list);
    for (const BlockCopy& b : expected) one_by_one->copy_blocks({&b, 1});
    ASSERT_TRUE(got.same_bits(want)) << "set " << set;
  }
}

TEST_P(Movement, PartialSumsOfOnePlaceAreAddedInOrder) {
  for (const DType from : kMovedTypes) {
    for (const DType to : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t spare : {3, 8}) {
        std::vector<Cells> parts;
        for (unsigned i = 0; i < 12; ++i) {
          parts.push_back(Cells::random(70, 36, i, from, i == 5 ? 3 : spare));
        }
        std::vector<float> scale(70, 0.3f);
        Cells got = Cells::random(70, 108, 1, to, spare), want = got;
        const auto blocks = [&](Cells& dst) {
          std::vector<BlockCopy> list;
          for (int64_t i = 0; i < 12; ++i) {
            BlockCopy b = block(parts[static_cast<size_t>(i)], dst, 36);
            b.dst = dst.matrix().element(0, i % 3 * 36);
            b.accumulate = i >= 3 || i == 1;
            b.scale = i % 4 == 3 ? scale.data() : nullptr;
            list.push_back(b);
          }
          return list;
        };
        ops->copy_blocks(blocks(got));
        Machine().cpu({"avx2", 1})->copy_blocks(blocks(want));
        EXPECT_TRUE(got.same_bits(want)) << name_of(from) << " to " << name_of(to);
      }
    }
  }
}

TEST_P(Movement, SumsOfRowsAreAddedAndColumnsRepeated) {
  for (const DType from : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType to : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t cols : {1, 2, 7, 300}) {
        Cells x = Cells::random(70, cols, 1, from, 3), y = Cells::random(70, 1, 2, to, 3);
        Cells want = y, wide = Cells::random(70, cols, 3, from, 3), repeated = wide;
        for (int64_t r = 0; r < 70; ++r) {
          float sum = static_cast<float>(y.at(r, 0));
          for (int64_t c = 0; c < cols; ++c) sum += static_cast<float>(x.at(r, c));
          want.set(r, 0, sum);
        }
        ops->run(AddRowSums{x.matrix(), y.matrix()});
        EXPECT_TRUE(y.same_bits(want)) << name_of(from) << " to " << name_of(to) << cols;
        for (int64_t r = 0; r < 70; ++r) {
          for (int64_t c = 0; c < cols; ++c) repeated.set(r, c, y.at(r, 0));
        }
        ops->run(RepeatColumn{y.matrix(), wide.matrix()});
        EXPECT_TRUE(wide.same_bits(repeated)) << name_of(from) << " to " << name_of(to) << cols;
      }
    }
  }
}

TEST_P(Movement, RowsOfAnyLengthAndAlignmentAreCopied) {
  for (const DType from : kMovedTypes) {
    for (const DType to : kMovedTypes) {
      for (const int64_t spare : {0, 1, 8}) {
        for (const int64_t width : {22, 23, 24}) {  // the first row may be aligned, others not
          for (const int64_t cols : {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 20}) {
            Cells src = Cells::random(3, width, 1, from, spare);
            Cells got = Cells::random(3, width, 2, to, spare), want = got;
            const BlockCopy b = block(src, got, cols);
            ops->copy_blocks({&b, 1});
            for (int64_t r = 0; r < 3; ++r) {
              for (int64_t c = 0; c < cols; ++c) want.set(r, c, src.at(r, c));
            }
            ASSERT_TRUE(got.same_bits(want)) << name_of(from) << " to " << name_of(to) << cols;
            got = Cells::random(3, width, 2, to, spare);
            ops->convert(src.matrix().columns(0, cols), got.matrix().columns(0, cols));
            ASSERT_TRUE(got.same_bits(want)) << name_of(from) << " to " << name_of(to) << cols;
          }
        }
      }
    }
  }
}

TEST_P(Movement, AnyNumberOfBlocksIsCopied) {
  for (const int64_t count : {1, 2, 31, 32, 33, 63, 64, 65, 100, 1025, 1100}) {
    Cells src = Cells::random(2, count * 3, 1), got(2, count * 3), want(2, count * 3);
    std::vector<BlockCopy> list;
    for (int64_t i = 0; i < count; ++i) {
      list.push_back(block(src, got, 3));
      list.back().src = src.matrix().element(0, i * 3);
      list.back().dst = got.matrix().element(0, (count - 1 - i) * 3);
      for (int64_t c = 0; c < 6; ++c) {
        want.set(c / 3, (count - 1 - i) * 3 + c % 3, src.at(c / 3, i * 3 + c % 3));
      }
    }
    ops->copy_blocks(list);
    EXPECT_TRUE(got.same_bits(want)) << count;
  }
}

TEST_P(Movement, BlocksThatDifferInOneFieldAreDifferent) {
  Cells src = Cells::random(6, 20, 1), other = Cells::random(6, 20, 2);
  std::vector<float> halves(3, 0.5f), thirds(3, 1.0f / 3);
  std::vector<int32_t> even = {0, 2, 4}, odd = {1, 3, 5};
  Cells got = Cells::random(6, 20, 3), want = got;
  BlockCopy plain = block(src, got, 5);
  plain.rows = 3;
  std::vector<BlockCopy> calls(14, plain);
  calls[1].src = other.matrix().data;
  calls[2].dst = got.matrix().element(0, 7);
  calls[3].src_stride *= 2;
  calls[4].dst_stride *= 2;
  calls[5].rows = 2;
  calls[6].cols = 6;
  calls[7].scale = halves.data();
  calls[8].scale = thirds.data();
  calls[9].src_rows = even.data();
  calls[10].src_rows = odd.data();
  calls[11].dst_rows = even.data();
  calls[12].dst_rows = odd.data();
  calls[13].accumulate = true;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < calls.size(); ++i) {
      ops->copy_blocks({&calls[i], 1});
      BlockCopy b = calls[i];
      b.dst = static_cast<char*>(static_cast<void*>(want.matrix().data)) +
              (static_cast<char*>(calls[i].dst) - static_cast<char*>(got.matrix().data));
      reference->copy_blocks({&b, 1});
      ASSERT_TRUE(close(got, want)) << "call " << i;
    }
  }
}

TEST_P(Movement, ValuesAreRoundedToTheNearestHalf) {
  // Each number of a type, the middle between it and the next, and the numbers beside the middle.
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<float> values;
    for (uint32_t bits = 0; bits < 0x7c00u; ++bits) {
      float low = 0, high = 0;
      if (type == DType::kFloat16) {
        Float16 a, b;
        a.bits = static_cast<uint16_t>(bits), b.bits = static_cast<uint16_t>(bits + 1);
        low = static_cast<float>(a);
        high = bits == 0x7bffu ? 65536.0f : static_cast<float>(b);
      } else {
        BFloat16 a, b;
        a.bits = static_cast<uint16_t>(bits), b.bits = static_cast<uint16_t>(bits + 1);
        low = static_cast<float>(a), high = static_cast<float>(b);
      }
      const float middle = low + (high - low) / 2;
      for (const float v :
           {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, INFINITY)}) {
        values.push_back(bits % 2 ? -v : v);
      }
    }
    const auto n = static_cast<int64_t>(values.size());
    Cells x(1, n), y(1, n, type), back(1, n);
    for (int64_t c = 0; c < n; ++c) x.set(0, c, values[static_cast<size_t>(c)]);
    ops->convert(x.matrix(), y.matrix());
    ops->convert(y.matrix(), back.matrix());
    for (int64_t c = 0; c < n; ++c) {
      const float v = values[static_cast<size_t>(c)];
      const float want = type == DType::kFloat16 ? static_cast<float>(Float16(v))
                                                 : static_cast<float>(BFloat16(v));
      ASSERT_EQ(y.at(0, c), want) << v << " to " << name_of(type);
      ASSERT_EQ(back.at(0, c), want) << v << " from " << name_of(type);
    }
  }
}

TEST_P(Movement, WhatIsNoNumberStaysNone) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    Cells x(1, 9), y(1, 9, type);
    const uint32_t nans[] = {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7fffffffu};
    for (int64_t c = 0; c < 9; ++c) {
      float value = c == 7 ? INFINITY : -INFINITY;
      if (c < 7) std::memcpy(&value, &nans[c % 4], sizeof(value));
      x.set(0, c, value);
    }
    ops->convert(x.matrix(), y.matrix());
    for (int64_t c = 0; c < 7; ++c) EXPECT_TRUE(std::isnan(y.at(0, c))) << c << name_of(type);
    EXPECT_EQ(y.at(0, 7), INFINITY) << name_of(type);
    EXPECT_EQ(y.at(0, 8), -INFINITY) << name_of(type);
  }
}

/// Some rows of `all`, ascending with gaps, including the first and the last.
std::vector<int32_t> some_rows(int32_t all, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> rows;
  for (int32_t r = 0; r < all; ++r) {
    if (r == 0 || r + 1 == all || random() % 3 == 0) rows.push_back(r);
  }
  return rows;
}

TEST_P(Movement, ScatteringChangesOnlyListedRows) {
  for (const DType from : kMovedTypes) {
    const std::vector<int32_t> rows = some_rows(900, 6), others = some_rows(700, 7);
    Cells src = Cells::random(900, 70, 1, from), got = Cells::random(900, 120, 2), want = got;
    const auto blocks = [&](Cells& dst) {
      std::vector<BlockCopy> list(3, block(src, dst, 70));
      list[0].dst_rows = rows.data();
      list[0].rows = static_cast<int64_t>(rows.size());
      list[1] = list[0];
      list[1].dst_rows = others.data();
      list[1].rows = static_cast<int64_t>(others.size());
      list[1].dst = dst.matrix().element(0, 33);
      list[1].accumulate = true;
      list[2] = list[1];
      list[2].src_rows = others.data();
      return list;
    };
    ops->copy_blocks(blocks(got));
    for (const BlockCopy& b : blocks(want)) {
      for (int64_t r = 0; r < b.rows; ++r) {
        BlockCopy one = b;
        one.rows = 1;
        one.src_rows = b.src_rows ? b.src_rows + r : nullptr;
        if (!b.src_rows) one.src = src.matrix().element(r, 0);
        one.dst_rows = b.dst_rows + r;
        reference->copy_blocks({&one, 1});
      }
    }
    EXPECT_TRUE(close(got, want)) << name_of(from);
    for (int64_t c = 0; c < 120; ++c) ASSERT_EQ(got.at(1, c), want.at(1, c));
  }
}

TEST_P(Movement, RowsOfMinusOneAtTheEndOfAListAreNotCopied) {
  Cells src = Cells::random(300, 33, 1), got = Cells::random(300, 80, 2), want = got;
  for (const size_t listed : {size_t{0}, size_t{1}, size_t{60}, size_t{80}}) {
    std::vector<int32_t> rows = some_rows(300, 5);
    ASSERT_GE(rows.size(), listed);
    rows.resize(listed);
    rows.resize(80, -1);
    const auto blocks = [&](Cells& dst, int64_t count) {
      std::vector<BlockCopy> list(4, block(src, dst, 33));
      for (BlockCopy& b : list) b.rows = count;
      list[0].src_rows = rows.data();
      list[1].dst_rows = rows.data(), list[1].accumulate = true;
      list[2].src_rows = list[2].dst_rows = rows.data();
      list[2].dst = dst.matrix().element(0, 40);
      list[3].src_rows = rows.data(), list[3].accumulate = true;  // where the first one wrote
      return list;
    };
    ops->copy_blocks(blocks(got, 80));
    reference->copy_blocks(blocks(want, static_cast<int64_t>(listed)));
    EXPECT_TRUE(close(got, want)) << listed;
    for (int64_t c = 0; c < 80; ++c) ASSERT_EQ(got.at(299, c), want.at(299, c));
  }
}

TEST_P(Movement, EmptyBlocksDoNothing) {
  Cells src(0, 4), dst = Cells::random(3, 4, 1);
  const Cells before = dst;
  const BlockCopy list[] = {block(src, dst, 4), block(dst, dst, 0)};
  ops->copy_blocks(list);
  EXPECT_TRUE(dst.same_bits(before));
}

TEST_P(Movement, OneNonFiniteElementIsFoundAnywhere) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Cells x = Cells::random(300, 70, 1, type);
    std::vector<float> bad = {0};
    ops->find_non_finite(x.matrix(), bad);
    EXPECT_EQ(bad[0], 0);
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY}) {
      for (const auto& [r, c] : {std::pair<int64_t, int64_t>{0, 0}, {150, 31}, {299, 69}}) {
        const float before = x.at(r, c);
        bad[0] = 0;
        x.set(r, c, value);
        ops->find_non_finite(x.matrix(), bad);
        EXPECT_EQ(bad[0], 1) << value << " at " << r;
        x.set(r, c, before);
      }
    }
    x.set(0, 0, std::numeric_limits<float>::lowest());
    bad[0] = 0;
    if (type == DType::kFloat32) ops->find_non_finite(x.matrix(), bad);
    EXPECT_EQ(bad[0], 0);
  }
}

TEST_P(Movement, MemoryIsFilledWithZeros) {
  for (const size_t n : {size_t{0}, size_t{5}, size_t{3} << 20}) {
    std::vector<char> bytes(n + 1, 7);
    ops->fill_zero(bytes.data(), static_cast<int64_t>(n));
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), static_cast<int64_t>(n));
    EXPECT_EQ(bytes.back(), 7);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Movement, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
