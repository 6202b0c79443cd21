// How launches are laid out. Results rarely depend on it, so nothing else shows that a lane is
// idle, or that memory is read element by element.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/column_chunks.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

alignas(64) float memory[16];
const DType kWide = DType::kFloat32, kNarrow = DType::kBFloat16;

Matrix matrix(DType type, int64_t rows, int64_t cols, int64_t stride, int64_t shift = 0) {
  return {reinterpret_cast<char*>(memory) + shift, type, rows, cols, stride};
}

/// Rows, columns and length.
std::vector<int64_t> extents_of(std::initializer_list<Matrix> matrices) {
  const Extents all = extents(matrices);
  return {all.rows, all.cols, all.length};
}

using Numbers = std::vector<int64_t>;

TEST(Shapes, ElementsWithoutGapsAreOneRow) {
  EXPECT_EQ(extents_of({matrix(kWide, 6, 10, 10)}), (Numbers{1, 60, 4}));
  EXPECT_EQ(extents_of({matrix(kNarrow, 4, 10, 10)}), (Numbers{1, 40, 8}));
  EXPECT_EQ(extents_of({matrix(kNarrow, 6, 10, 10)}), (Numbers{1, 60, 1}));
  EXPECT_EQ(extents_of({matrix(kWide, 0, 8, 8)}), (Numbers{1, 0, 4}));
  const Matrix wide = matrix(kWide, 6, 10, 10), narrow = matrix(kNarrow, 6, 10, 10);
  EXPECT_EQ(extents_of({wide, narrow}), (Numbers{1, 60, 4}));
  EXPECT_EQ(extents_of({narrow, wide}), (Numbers{1, 60, 4}));
}

TEST(Shapes, RowsWithGapsAreApart) {
  EXPECT_EQ(extents_of({matrix(kWide, 6, 8, 12)}), (Numbers{6, 8, 4}));
  EXPECT_EQ(extents_of({matrix(kWide, 6, 8, 10)}), (Numbers{6, 8, 1}));
  EXPECT_EQ(extents_of({matrix(kWide, 6, 7, 12)}), (Numbers{6, 7, 1}));
  EXPECT_EQ(extents_of({matrix(kWide, 1, 8, 12)}), (Numbers{1, 8, 4}));
  EXPECT_EQ(extents_of({matrix(kWide, 6, 8, 8), matrix(kWide, 6, 8, 12)}), (Numbers{6, 8, 4}));
  EXPECT_EQ(extents_of({matrix(kWide, 6, 8, 12), matrix(kWide, 6, 8, 8)}), (Numbers{6, 8, 4}));
  EXPECT_EQ(extents_of({matrix(kNarrow, 6, 8, 8), matrix(kNarrow, 6, 8, 12)}), (Numbers{6, 8, 1}));
}

TEST(Shapes, PacksAreAlignedInEveryMatrix) {
  EXPECT_EQ(extents_of({matrix(kWide, 6, 8, 8, 16)}), (Numbers{1, 48, 4}));
  EXPECT_EQ(extents_of({matrix(kWide, 6, 8, 8, 8)}), (Numbers{1, 48, 1}));
  EXPECT_EQ(extents_of({matrix(kNarrow, 6, 8, 8, 8)}), (Numbers{1, 48, 1}));
  const Matrix wide = matrix(kWide, 6, 8, 8), narrow = matrix(kNarrow, 6, 8, 8, 8);
  EXPECT_EQ(extents_of({wide, narrow}), (Numbers{1, 48, 4}));  // four of bf16 are 8 bytes
  EXPECT_EQ(extents_of({wide, matrix(kNarrow, 6, 8, 8, 4)}), (Numbers{1, 48, 1}));
  EXPECT_EQ(extents_of({wide, matrix(kWide, 6, 8, 8, 4)}), (Numbers{1, 48, 1}));
}

TEST(Shapes, ThreadsAcrossCoverTheRowsAtMost) {
  const auto across = [](int64_t columns, int threads) {
    const BlockShape shape = block_shape(columns, threads);
    EXPECT_EQ(shape.across() * shape.down(threads), threads);
    return shape.across();
  };
  EXPECT_EQ(across(0, 256), 1);
  EXPECT_EQ(across(1, 256), 1);
  EXPECT_EQ(across(2, 256), 2);
  EXPECT_EQ(across(3, 256), 4);
  EXPECT_EQ(across(129, 256), 256);
  EXPECT_EQ(across(1000, 256), 256);
  EXPECT_EQ(across(1000, 32), 32);
}

TEST(Shapes, LanesCoverARowAtMost) {
  const int64_t widths[] = {1, 4, 5, 8, 9, 64, 65, 128, 129, 5000};
  Numbers shifts;
  for (const int64_t width : widths) shifts.push_back(lanes_shift(width, 4));
  EXPECT_EQ(shifts, (Numbers{0, 0, 1, 1, 2, 4, 5, 5, 5, 5}));
}

TEST(Shapes, ChunksAreOf64RowsUntilThereAre256) {
  const int64_t rows[] = {0, 1, 64, 16384, 16385, 32768, 32769};
  Numbers chunks;
  for (const int64_t r : rows) chunks.push_back(chunk_rows(r));
  EXPECT_EQ(chunks, (Numbers{64, 64, 64, 64, 128, 128, 192}));
}

/// Chunk, length, shift, blocks across and blocks down.
Numbers chunks_of(const Matrix& shape, std::initializer_list<Matrix> matrices) {
  const ChunkShape s = chunk_shape(shape, matrices);
  EXPECT_EQ(s.rows, shape.rows);
  EXPECT_EQ(s.cols, shape.cols);
  return {s.chunk, s.length, s.shift, s.grid().x, s.grid().y};
}

TEST(Shapes, AChunksThreadsCoverAtMostAWarpOfPacks) {
  const auto of = [](const Matrix& m) { return chunks_of(m, {m}); };
  EXPECT_EQ(of(matrix(kWide, 100, 16, 16)), (Numbers{64, 4, 2, 1, 2}));
  EXPECT_EQ(of(matrix(kNarrow, 64, 16, 16)), (Numbers{64, 8, 1, 1, 1}));
  EXPECT_EQ(of(matrix(kWide, 65, 132, 132)), (Numbers{64, 4, 5, 2, 2}));
  EXPECT_EQ(of(matrix(kWide, 20000, 7, 8)), (Numbers{128, 1, 3, 1, 157}));
  EXPECT_EQ(of(matrix(kWide, 5, 8, 10)), (Numbers{64, 1, 3, 1, 1}));
  EXPECT_EQ(of(matrix(kWide, 5, 8, 8, 8)), (Numbers{64, 1, 3, 1, 1}));
  EXPECT_EQ(of(matrix(kWide, 0, 8, 8)), (Numbers{64, 4, 1, 1, 0}));
  const Matrix x = matrix(kWide, 5, 8, 8);
  EXPECT_EQ(chunks_of(x, {x, matrix(kWide, 1, 8, 8, 4)}), (Numbers{64, 1, 3, 1, 1}));
  EXPECT_EQ(chunks_of(x, {matrix(kWide, 5, 8, 9), x}), (Numbers{64, 1, 3, 1, 1}));
}

}  // namespace
}  // namespace dlrm::kernels
