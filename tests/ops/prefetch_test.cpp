// The lines of memory that lookups and updates on a CPU prefetch. They change no result. Here the
// kernels of the baseline note them instead.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <immintrin.h>

#include "bags.h"
#include "cpu/kernels.h"

namespace dlrm::cpu {
namespace {

std::vector<const char*> noted;  // NOLINT: the kernels take no context

bool note(const char* line) {
  noted.push_back(line);
  return false;
}

}  // namespace
}  // namespace dlrm::cpu

#define asm \
  if (note(at + i)) __asm__  // NOLINT
#include "cpu/vec.h"
#undef asm
#include "cpu/kernels_body.h"

namespace dlrm::cpu {
namespace {

using Lines = std::vector<const char*>;

constexpr Kernels kNoting = kernels_named("noting");

/// Appends the lines of [p, p + bytes), but at most `most` bytes.
void append(Lines& lines, const void* p, int64_t bytes, int64_t most = 1024) {
  for (int64_t at = 0; at < std::min(bytes, most); at += 64) {
    lines.push_back(static_cast<const char*>(p) + at);
  }
}

/// Rows of 8 KiB, but at least 8 and at most 64.
int64_t ahead_of(int64_t row_bytes) { return std::clamp<int64_t>(8192 / row_bytes, 8, 64); }

template <class Work>
Lines noted_in(const Work& work) {
  noted.clear();
  work();
  return noted;
}

/// The blocks of columns that the baseline processes as a unit: of 32 and fewer.
std::vector<std::pair<int64_t, int64_t>> blocks_of(int64_t width) {
  std::vector<std::pair<int64_t, int64_t>> blocks;
  int64_t c = 0;
  for (const int64_t n : {32, 16, 8, 4, 1}) {
    for (; c + n <= width; c += n) blocks.emplace_back(c, n);
  }
  return blocks;
}

TEST(Prefetches, OfLookupsAreTheRowsThatFollow) {
  EXPECT_EQ(ahead_of(16), 64);
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const auto size = static_cast<int64_t>(size_of(type));
    for (const int64_t width : {4, 5, 32, 70, 300, 1100}) {
      Table table(50, width, type, 1);
      Bags bags = Bags::random(60, 50, 3, 2);
      Cells pooled(60, width);
      const BagGroup group = bags.lookup(table.rows(), pooled.matrix());
      const auto* rows = static_cast<const char*>(group.table.weights);
      const auto at = [&](int64_t id, int64_t column) {
        return rows + (bags.ids[static_cast<size_t>(id)] * group.table.stride + column) * size;
      };
      for (const auto& [b0, b1] : {std::pair{0, 60}, std::pair{20, 40}}) {
        const int64_t begin = group.offsets[b0], end = group.offsets[b1];
        Lines want;
        for (int64_t k = begin; k < std::min(begin + ahead_of(width * size), end); ++k) {
          append(want, at(k, 0), width * size);
        }
        EXPECT_EQ(noted_in([&] { kNoting.fetch_bags(group, b0, b1); }), want) << width;
        want.clear();
        for (int64_t b = b0; b < b1; ++b) {
          for (const auto& [c, n] : blocks_of(width)) {
            for (int64_t k = group.offsets[b]; k < group.offsets[b + 1]; ++k) {
              append(want, at(std::min(k + ahead_of(n * size), end - 1), c), n * size);
            }
          }
        }
        EXPECT_EQ(noted_in([&] { kNoting.pool_bags(group, b0, b1); }), want) << width;
      }
    }
  }
}

/// Segments of rows that occur once to four times, of two features.
struct NotedRuns {
  static constexpr int64_t kRows = 90;
  std::vector<int64_t> rows, starts{0};
  std::vector<Occurrence> occurrences;
  Cells pooled[2];
  BagGradient gradients[2];
  Runs runs;

  NotedRuns(int64_t width, DType type)
      : pooled{Cells::random(70, width, 3, type), Cells::random(70, width, 4, type)},
        gradients{{pooled[0].matrix(), nullptr}, {pooled[1].matrix(), nullptr}} {
    for (int64_t r = 0; r < kRows; ++r) {
      rows.push_back(2 * r);
      for (int64_t k = 0; k <= r % 4; ++k) {
        occurrences.push_back({static_cast<int32_t>(k % 2), static_cast<int32_t>((r + k) % 70)});
      }
      starts.push_back(static_cast<int64_t>(occurrences.size()));
    }
    runs.rows = rows.data(), runs.starts = starts.data(), runs.occurrences = occurrences.data();
    runs.gradients = gradients, runs.type = type, runs.width = width;
    runs.last = starts.back() - 1;
  }
  /// The lines of the gradient of the twelfth occurrence after k.
  void append_part(Lines& lines, int64_t k) const {
    const Occurrence o = occurrences[static_cast<size_t>(std::min(k + 12, runs.last))];
    append(lines, gradients[o.group].pooled.element(o.bag, 0),
           runs.width * static_cast<int64_t>(size_of(runs.type)), 256);
  }
  /// Those of all further occurrences of segment i, for each block of columns.
  void append_further_parts(Lines& lines, int64_t i) const {
    const int64_t begin = runs.starts[i], end = runs.starts[i + 1];
    if (end - begin == 1 && runs.type == DType::kFloat32) return;
    for (size_t block = 0; block < blocks_of(runs.width).size(); ++block) {
      for (int64_t k = begin + 1; k < end; ++k) append_part(lines, k);
    }
  }
};

TEST(Prefetches, OfUpdatesAreTheRowsStatesAndGradientsThatFollow) {
  constexpr int64_t i0 = 10, i1 = NotedRuns::kRows - 3;
  for (const OptimizerStep& step : every_rule(kSparse)) {
    const OptimizerTraits& traits = traits_of(step.rule);
    SCOPED_TRACE(traits.name);
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      const auto size = static_cast<int64_t>(size_of(type));
      for (const int64_t width : {5, 36, 300}) {
        NotedRuns of(width, type);
        Table cells(2 * NotedRuns::kRows, width, type, 5);
        RowTable table = cells.rows(step.rule);
        const int64_t ahead = ahead_of(table.stride * size);
        const auto append_row = [&](Lines& lines, int64_t row) {
          append(lines, static_cast<char*>(table.weights) + row * table.stride * size,
                 width * size);
          for (int s = 0; s < traits.state_count(); ++s) {
            append(lines, (s == 0 ? table.state1 : table.state2) + row * table.state_stride,
                   (traits.rowwise() ? 1 : width) * 4);
          }
        };
        Lines want;
        for (int64_t i = i0; i < std::min(i0 + ahead, i1); ++i) append_row(want, of.runs.rows[i]);
        EXPECT_EQ(noted_in([&] { kNoting.fetch_runs(step, table, of.runs, i0, i1); }), want);
        std::vector<float> scratch(static_cast<size_t>(2 * width));
        want.clear();
        for (int64_t i = i0; i < i1; ++i) {
          append_row(want, of.runs.rows[std::min(i + ahead, i1 - 1)]);
          of.append_part(want, of.runs.starts[i]);
          of.append_further_parts(want, i);
        }
        EXPECT_EQ(
            noted_in([&] { kNoting.update_runs(step, table, of.runs, i0, i1, scratch.data()); }),
            want);
        want.clear();
        for (int64_t i = i0; i < i1; ++i) append_row(want, of.rows[std::min(i + ahead, i1 - 1)]);
        Cells from(NotedRuns::kRows, width);
        const RowGradients listed{
            of.rows.data(), from.floats().data, from.stride(), false, nullptr, 0};
        EXPECT_EQ(noted_in([&] { kNoting.update_rows(step, table, listed, i0, i1); }), want);
      }
    }
  }
}

TEST(Prefetches, OfSumsAreTheGradientsThatFollow) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    NotedRuns of(5, type);
    Cells sums(NotedRuns::kRows, 5);
    std::vector<float> scratch(10);
    Lines want;
    for (int64_t i = 2; i < 80; ++i) {
      of.append_part(want, of.runs.starts[i]);
      of.append_further_parts(want, i);
    }
    const MatrixView<float> to = sums.floats();
    EXPECT_EQ(
        noted_in([&] { kNoting.sum_runs(of.runs, 2, 80, scratch.data(), to.data, to.stride); }),
        want);
  }
}

}  // namespace
}  // namespace dlrm::cpu
