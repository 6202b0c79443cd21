#include <algorithm>
#include <atomic>

#include "cpu/cpu_ops.h"
#include "cpu/in_turn.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kLookupGrain = 16384;  // elements per thread
constexpr int64_t kBagCost = 8;          // work per bag, in elements

/// Work of the first `b` bags of a group, in elements.
int64_t work_before(const BagGroup& g, int64_t b) {
  return (g.offsets[b] - g.offsets[0]) * g.table.width + b * (g.table.width + kBagCost);
}

/// Work of the first `i` segments, in elements.
int64_t work_before(const Runs& runs, int64_t i) {
  return (runs.starts[i] + 2 * i) * (runs.width + kBagCost);
}

Runs runs_of(const SegmentedRows& runs, View<const BagGradient> gradients, int64_t width) {
  Runs r;
  r.rows = runs.rows.data();
  r.starts = runs.starts.data();
  r.occurrences = runs.occurrences.data();
  if (!runs.weights.empty()) r.weights = runs.weights.data();
  r.gradients = gradients.data();
  if (!gradients.empty()) r.type = gradients[0].pooled.type;
  r.last = runs.starts[static_cast<size_t>(runs.count[0])] - 1;
  r.width = width;
  return r;
}

/// The most runs of more than one chunk that there can be: every run has an occurrence.
int64_t most_long_runs(const Runs& runs, int64_t count) {
  return runs.last + 2 - count > kRunChunk ? (runs.last + 1) / kRunChunk : 0;
}

/// Calls body(i) for each run i of more than one chunk, in order.
template <class Body>
void for_long_runs(const Runs& runs, int64_t count, const Body& body) {
  const int64_t* const starts = runs.starts;
  int64_t i = 0;
  // Such a run has an occurrence whose number is a multiple of kRunChunk, and is not its first one.
  for (int64_t k = kRunChunk; k <= runs.last; k += kRunChunk) {
    const int64_t* const end = starts + std::min(count, i + kRunChunk + 1);
    i = std::upper_bound(starts + i, end, k) - starts - 1;
    if (starts[i + 1] - starts[i] <= kRunChunk) continue;
    body(i);
    k = starts[i + 1] / kRunChunk * kRunChunk;
  }
}

}  // namespace

void CpuOps::run(const EmbeddingBagForward& o) {
  int64_t total = 0;
  for (const BagGroup& g : o.groups) {
    if (g.bags > 0) total += work_before(g, g.bags);
  }
  const Parts parts = parts_for(threads_, total, kLookupGrain);
  const int shares = shares_for(parts, total, kLookupGrain);
  parallel_shares(parts, shares, [&](int, int share) {
    const Range mine = part_of(total, share, shares);
    int64_t passed = 0;
    auto turn = in_turn<BagGroup>(kernels_.fetch_bags, kernels_.pool_bags);
    for (const BagGroup& g : o.groups) {
      if (g.bags == 0) continue;
      const auto before = [&](int64_t b) { return passed + work_before(g, b); };
      const int64_t b0 = first_at(g.bags, mine.begin, before);
      const int64_t b1 = first_at(g.bags, mine.end, before);
      if (b0 < b1) turn.add(g, b0, b1, work_before(g, b1) - work_before(g, b0));
      passed += work_before(g, g.bags);
    }
    turn.finish();
  });
}

void CpuOps::add_runs(size_t index, const SegmentedRows& runs, View<const BagGradient> gradients,
                      int64_t width) {
  const int64_t count = runs.count[0];
  if (count == 0 || width == 0) return;
  TableRuns table;
  table.index = index;
  table.runs = runs_of(runs, gradients, width);
  table.count = count;
  together_.push_back(table);
}

/// Gives each table memory for its long runs and their chunk sums. Returns false if none has any.
bool CpuOps::reserve_long_runs() {
  int64_t runs = 0, floats = 0;
  for (TableRuns& table : together_) {
    table.first_long = runs;
    table.first_sum = floats;
    const int64_t most = most_long_runs(table.runs, table.count);
    runs += most + 1;
    floats += 2 * most * table.runs.width;  // each long run has a chunk that is not full
  }
  if (floats == 0) return false;
  long_runs_.reserve(static_cast<size_t>(runs));
  long_first_.reserve(static_cast<size_t>(runs));
  chunk_sums_.reserve(static_cast<size_t>(floats));
  return true;
}

void CpuOps::find_long_runs(TableRuns& table) {
  if (most_long_runs(table.runs, table.count) == 0) return;
  int64_t* const numbers = long_runs_.data() + table.first_long;
  int64_t* const first = long_first_.data() + table.first_long;
  Runs& runs = table.runs;
  first[0] = 0;
  for_long_runs(runs, table.count, [&](int64_t i) {
    const int64_t at = runs.long_count++;
    numbers[at] = i;
    first[at + 1] = first[at] + (runs.starts[i + 1] - runs.starts[i] + kRunChunk - 1) / kRunChunk;
  });
  runs.long_runs = numbers;
  runs.long_first = first;
  runs.chunk_sums = chunk_sums_.data() + table.first_sum;
}

/// Sums chunk `c` of the table's long runs.
void CpuOps::sum_chunk(const TableRuns& table, int64_t c) {
  const Runs& runs = table.runs;
  const int64_t* const first = runs.long_first;
  const int64_t at = std::upper_bound(first, first + runs.long_count, c) - first - 1;
  const int64_t run = runs.long_runs[at];
  const int64_t k0 = runs.starts[run] + (c - first[at]) * kRunChunk;
  kernels_.sum_chunk(runs, k0, std::min(k0 + kRunChunk, runs.starts[run + 1]),
                     chunk_sums_.data() + table.first_sum + c * runs.width);
}

void CpuOps::sum_chunks(std::atomic<int64_t>& next) {
  size_t t = 0;
  int64_t passed = 0;  // chunks of the tables before
  for (int64_t c = next++;; c = next++) {
    for (; t < together_.size(); ++t) {
      const Runs& runs = together_[t].runs;
      const int64_t chunks = runs.long_count == 0 ? 0 : runs.long_first[runs.long_count];
      if (c < passed + chunks) break;
      passed += chunks;
    }
    if (t == together_.size()) return;
    sum_chunk(together_[t], c - passed);
  }
}

template <class Fetch, class Work>
void CpuOps::for_runs(const std::function<void()>& progress, const Fetch& fetch, const Work& work) {
  int64_t total = 0, width = 0;
  for (const TableRuns& table : together_) {
    total += work_before(table.runs, table.count);
    width = std::max(width, table.runs.width);
  }
  const Parts parts = parts_for(threads_, total, kLookupGrain);
  const int shares = shares_for(parts, total, kLookupGrain);
  const ThreadScratch scratch = thread_scratch(3 * width);
  const auto take_shares = [&](int part, std::atomic<int>& next) {
    for (int share = next++; share < shares; share = next++) {
      run_share(part_of(total, share, shares), parts == 1 ? &progress : nullptr, fetch,
                [&](const TableRuns& table, int64_t i0, int64_t i1) {
                  work(table, i0, i1, scratch(part));
                });
    }
  };
  std::atomic<int> next_share{0};
  if (parts == 1 || !reserve_long_runs()) {
    return parallel(parts, [&](int part) { take_shares(part, next_share); });
  }
  std::atomic<int64_t> next_chunk{0};
  parallel_phases(parts, 3, [&](int part, int phase) {
    if (phase == 0) {
      for (size_t t = static_cast<size_t>(part); t < together_.size();
           t += static_cast<size_t>(parts)) {
        find_long_runs(together_[t]);
      }
    } else if (phase == 1) {
      sum_chunks(next_chunk);
    } else {
      take_shares(part, next_share);
    }
  });
}

template <class Fetch, class Work>
void CpuOps::run_share(Range share, const std::function<void()>* progress, const Fetch& fetch,
                       const Work& work) {
  int64_t passed = 0, since_progress = 0;
  auto turn = in_turn<TableRuns>(fetch, work);
  for (const TableRuns& t : together_) {
    const auto before = [&](int64_t i) { return passed + work_before(t.runs, i); };
    const int64_t i0 = first_at(t.count, share.begin, before);
    const int64_t i1 = first_at(t.count, share.end, before);
    if (i0 < i1) turn.add(t, i0, i1, before(i1) - before(i0));
    const int64_t work_of_table = work_before(t.runs, t.count);
    passed += work_of_table;
    since_progress += work_of_table;
    if (!progress || since_progress < kLookupGrain) continue;
    (*progress)();
    since_progress = 0;
  }
  turn.finish();
}

/// Calls body(i0, i1, scratch [width]) for ranges of rows whose gradients are in memory.
template <class Body>
void CpuOps::for_row_ranges(int64_t count, int64_t width, const Body& body) {
  if (count <= 0) return;
  const Parts parts = parts_for(threads_, count * width, kLookupGrain).at_most(count);
  const ThreadScratch scratch = thread_scratch(width);
  parallel(parts, [&](int part) {
    const Range rows = part_of(count, part, parts);
    body(rows.begin, rows.end, scratch(part));
  });
}

void CpuOps::run(const EmbeddingBagBackward& o) {
  const auto& [runs, gradients, grads] = o;
  together_.clear();
  add_runs(0, runs, gradients, grads.cols);
  for_runs([] {}, [](const TableRuns&, int64_t, int64_t) {},
           [&](const TableRuns& t, int64_t i0, int64_t i1, float* scratch) {
             kernels_.sum_runs(t.runs, i0, i1, scratch, grads.data, grads.stride);
           });
}

void CpuOps::run(const EmbeddingBagUpdate& o) {
  const auto& [step, table, runs, gradients] = o;
  const UpdatedShard shard{table, {}, gradients, runs};
  run(UpdateShards{step, {&shard, 1}, [] {}});
}

void CpuOps::run(const UpdateShards& o) {
  const auto& [step, shards, progress] = o;
  if (skips_update(step)) return;
  together_.clear();
  for (size_t s = 0; s < shards.size(); ++s) {
    add_runs(s, shards[s].runs, shards[s].gradients, shards[s].table.width);
  }
  for_runs(
      progress,
      [&](const TableRuns& t, int64_t i0, int64_t i1) {
        kernels_.fetch_runs(step, shards[t.index].table, t.runs, i0, i1);
      },
      [&](const TableRuns& t, int64_t i0, int64_t i1, float* scratch) {
        kernels_.update_runs(step, shards[t.index].table, t.runs, i0, i1, scratch);
      });
  progress();
}

void CpuOps::run(const RowSquareSums& o) {
  for_row_ranges(o.count[0], o.grads.cols, [&](int64_t i0, int64_t i1, float* scratch) {
    kernels_.row_square_sums(o, i0, i1, scratch);
  });
}

void CpuOps::run(const SparseUpdate& o) {
  const auto& [step, table, rows, count, grads, square_sums, full_width] = o;
  update_rows(step, table, count[0],
              {rows.data(), grads.data, grads.stride, /*by_row=*/false,
               square_sums.empty() ? nullptr : square_sums.data(), full_width});
}

void CpuOps::update_rows(const OptimizerStep& step, const RowTable& table, int64_t count,
                         const RowGradients& grads) {
  if (table.width == 0 || skips_update(step)) return;
  for_row_ranges(count, table.width, [&](int64_t i0, int64_t i1, float* scratch) {
    kernels_.update_rows(step, table, grads, i0, i1, scratch);
  });
}

void CpuOps::run(const SumTableGradients& o) {
  together_.clear();
  for (size_t t = 0; t < o.tables.size(); ++t) {
    const UpdatedShard& table = o.tables[t];
    add_runs(t, table.runs, table.gradients, o.gradients[t].rows.cols);
  }
  for_runs([] {}, [](const TableRuns&, int64_t, int64_t) {},
           [&](const TableRuns& t, int64_t i0, int64_t i1, float* scratch) {
             const TableGradients& to = o.gradients[t.index];
             for (int64_t i = i0; i < i1; ++i) to.touched[static_cast<size_t>(t.runs.rows[i])] = 1;
             kernels_.sum_runs_by_row(t.runs, i0, i1, scratch, to.rows.data, to.rows.stride);
           });
}

void CpuOps::run(const UpdateTables& o) {
  for (const auto& [table, gradients] : o.tables) {
    if (table.width == 0 || skips_update(o.step)) continue;
    const View<float> touched = gradients.touched;
    touched_rows_.reserve(touched.size());
    const RowGradients grads{touched_rows_.data(),
                             gradients.rows.data,
                             gradients.rows.stride,
                             /*by_row=*/true,
                             nullptr,
                             0};
    for_row_ranges(static_cast<int64_t>(touched.size()), table.width,
                   [&](int64_t r0, int64_t r1, float* scratch) {
                     int64_t end = r0;
                     for (int64_t r = r0; r < r1; ++r) {
                       if (touched[static_cast<size_t>(r)] > 0)
                         touched_rows_[static_cast<size_t>(end++)] = r;
                     }
                     if (end > r0) kernels_.update_rows(o.step, table, grads, r0, end, scratch);
                   });
  }
}

}  // namespace dlrm::cpu
