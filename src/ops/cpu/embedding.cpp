#include <algorithm>

#include "cpu/cpu_ops.h"
#include "cpu/in_turn.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements per thread
constexpr int64_t kBagCost = 8;    // work per bag, in elements

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

/// True if a segment has more than one chunk, so that threads may share its sum.
bool has_long_run(const Runs& runs, int64_t count) {
  if (runs.last + 2 - count <= kRunChunk)
    return false;  // every segment has an occurrence, so none can be long
  for (int64_t i = 0; i < count; ++i) {
    if (runs.starts[i + 1] - runs.starts[i] > kRunChunk) return true;
  }
  return false;
}

}  // namespace

void CpuOps::run(const EmbeddingBagForward& o) {
  int64_t total = 0;
  for (const BagGroup& g : o.groups) {
    if (g.bags > 0) total += work_before(g, g.bags);
  }
  const Parts parts = parts_for(threads_, total, kGrain);
  const int shares = shares_for(parts, total, kGrain);
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

Runs CpuOps::prepare_runs(const SegmentedRows& runs, View<const BagGradient> gradients,
                          int64_t width) {
  const int64_t count = runs.count[0];
  Runs r = runs_of(runs, gradients, width);
  const bool shared = parts_for(threads_, (r.last + 1) * width, kGrain) > 1;
  if (shared && has_long_run(r, count)) sum_long_runs(r, count);
  return r;
}

void CpuOps::sum_long_runs(Runs& runs, int64_t count) {
  const size_t most = static_cast<size_t>(runs.last / kRunChunk + 1);
  long_runs_.reserve(most);
  long_first_.reserve(most + 1);
  int64_t found = 0, chunks = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = runs.starts[i + 1] - runs.starts[i];
    if (length <= kRunChunk) continue;
    long_runs_[static_cast<size_t>(found)] = i;
    long_first_[static_cast<size_t>(found++)] = chunks;
    chunks += (length + kRunChunk - 1) / kRunChunk;
  }
  long_first_[static_cast<size_t>(found)] = chunks;
  chunk_sums_.reserve(static_cast<size_t>(chunks * runs.width));
  parallel_ranges(threads_, chunks, 1, 1, [&](int64_t c0, int64_t c1) {
    const int64_t* first = long_first_.data();
    for (int64_t c = c0; c < c1; ++c) {
      const int64_t at = std::upper_bound(first, first + found, c) - first - 1;
      const int64_t run = long_runs_[static_cast<size_t>(at)];
      const int64_t k0 = runs.starts[run] + (c - first[at]) * kRunChunk;
      kernels_.sum_chunk(runs, k0, std::min(k0 + kRunChunk, runs.starts[run + 1]),
                         chunk_sums_.data() + c * runs.width);
    }
  });
  runs.long_runs = long_runs_.data();
  runs.long_first = long_first_.data();
  runs.long_count = found;
  runs.chunk_sums = chunk_sums_.data();
}

template <class Body>
void CpuOps::for_run_ranges(const Runs& runs, int64_t count, const Body& body) {
  const auto before = [&](int64_t i) { return work_before(runs, i); };
  const int64_t total = before(count);
  const Parts parts = parts_for(threads_, total, kGrain);
  const ThreadScratch scratch = thread_scratch(3 * runs.width);
  parallel(parts, [&](int part) {
    const Range mine = part_of(total, part, parts);
    const int64_t i0 = first_at(count, mine.begin, before);
    const int64_t i1 = first_at(count, mine.end, before);
    if (i0 < i1) body(i0, i1, scratch(part));
  });
}

/// Like for_run_ranges(), for rows whose gradients are in memory.
template <class Body>
void CpuOps::for_row_ranges(int64_t count, int64_t width, const Body& body) {
  if (count <= 0) return;
  const Parts parts = parts_for(threads_, count * width, kGrain).at_most(count);
  const ThreadScratch scratch = thread_scratch(width);
  parallel(parts, [&](int part) {
    const Range rows = part_of(count, part, parts);
    body(rows.begin, rows.end, scratch(part));
  });
}

void CpuOps::run(const EmbeddingBagBackward& o) {
  const auto& [runs, gradients, grads] = o;
  const int64_t count = runs.count[0];
  if (count == 0 || grads.cols == 0) return;
  const Runs prepared = prepare_runs(runs, gradients, grads.cols);
  for_run_ranges(prepared, count, [&](int64_t i0, int64_t i1, float* scratch) {
    kernels_.sum_runs(prepared, i0, i1, scratch, grads.data, grads.stride);
  });
}

void CpuOps::run(const EmbeddingBagUpdate& o) {
  const auto& [step, table, runs, gradients] = o;
  const int64_t count = runs.count[0];
  if (count == 0 || table.width == 0 || skips_update(step)) return;
  const Runs prepared = prepare_runs(runs, gradients, table.width);
  for_run_ranges(prepared, count, [&](int64_t i0, int64_t i1, float* scratch) {
    kernels_.update_runs(step, table, prepared, i0, i1, scratch);
  });
}

void CpuOps::run(const UpdateShards& o) {
  const auto& [step, shards, progress] = o;
  if (skips_update(step)) return;
  together_.clear();
  int64_t total = 0, width = 0;
  for (const UpdatedShard& shard : shards) {
    const int64_t count = shard.runs.count[0];
    if (count == 0 || shard.table.width == 0) continue;
    const Runs runs = runs_of(shard.runs, shard.gradients, shard.table.width);
    if (threads_ > 1 && has_long_run(runs, count)) {
      embedding_bag_update(step, shard.table, shard.runs, shard.gradients);
      progress();
      continue;
    }
    together_.push_back({&shard.table, runs, count});
    total += work_before(runs, count);
    width = std::max(width, runs.width);
  }
  const Parts parts = parts_for(threads_, total, kGrain);
  const int shares = shares_for(parts, total, kGrain);
  const ThreadScratch scratch = thread_scratch(3 * width);
  parallel_shares(parts, shares, [&](int part, int share) {
    update_share(step, part_of(total, share, shares), scratch(part),
                 parts == 1 ? &progress : nullptr);
  });
  progress();
}

void CpuOps::update_share(const OptimizerStep& step, Range share, float* scratch,
                          const std::function<void()>* progress) {
  int64_t passed = 0, since_progress = 0;
  auto turn =
      in_turn<TableRuns>([&](const TableRuns& t, int64_t i0,
                             int64_t i1) { kernels_.fetch_runs(step, *t.table, t.runs, i0, i1); },
                         [&](const TableRuns& t, int64_t i0, int64_t i1) {
                           kernels_.update_runs(step, *t.table, t.runs, i0, i1, scratch);
                         });
  for (const TableRuns& t : together_) {
    const auto before = [&](int64_t i) { return passed + work_before(t.runs, i); };
    const int64_t i0 = first_at(t.count, share.begin, before);
    const int64_t i1 = first_at(t.count, share.end, before);
    if (i0 < i1) turn.add(t, i0, i1, before(i1) - before(i0));
    const int64_t work = work_before(t.runs, t.count);
    passed += work;
    since_progress += work;
    if (!progress || since_progress < kGrain) continue;
    (*progress)();
    since_progress = 0;
  }
  turn.finish();
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
  for (size_t t = 0; t < o.tables.size(); ++t) {
    const UpdatedShard& table = o.tables[t];
    const TableGradients& to = o.gradients[t];
    const int64_t count = table.runs.count[0];
    for (int64_t i = 0; i < count; ++i) {
      to.touched[static_cast<size_t>(table.runs.rows[static_cast<size_t>(i)])] = 1;
    }
    if (count == 0 || to.rows.cols == 0) continue;
    const Runs runs = prepare_runs(table.runs, table.gradients, to.rows.cols);
    for_run_ranges(runs, count, [&](int64_t i0, int64_t i1, float* scratch) {
      kernels_.sum_runs_by_row(runs, i0, i1, scratch, to.rows.data, to.rows.stride);
    });
  }
}

void CpuOps::run(const UpdateTables& o) {
  for (const auto& [table, gradients] : o.tables) {
    touched_rows_.reserve(gradients.touched.size());
    size_t count = 0;
    for (size_t r = 0; r < gradients.touched.size(); ++r) {
      if (gradients.touched[r] > 0) touched_rows_[count++] = static_cast<int64_t>(r);
    }
    update_rows(o.step, table, static_cast<int64_t>(count),
                {touched_rows_.data(), gradients.rows.data, gradients.rows.stride, /*by_row=*/true,
                 nullptr, 0});
  }
}

}  // namespace dlrm::cpu
