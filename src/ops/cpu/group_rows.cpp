#include <algorithm>
#include <bit>
#include <limits>

#include "dlrm/core/error.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kGrain = 8192;  // ids a thread

template <class Row>
struct Entry {
  Row row;
  Occurrence at;
};

/// Digits of a radix sort over the `bits` that rows need.
struct Digits {
  int passes;
  int bits;
  int64_t buckets() const { return int64_t{1} << bits; }

  Digits(int64_t rows, int64_t count) {
    const int needed = std::max(
        1, static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows, 1) - 1))));
    // A pass costs its buckets too: few ids take narrower digits.
    const int widest = count < 512 ? 6 : count < 8192 ? 8 : 11;
    passes = (needed + widest - 1) / widest;
    bits = (needed + passes - 1) / passes;
  }
};

int64_t ids_of(const IdGroup& g) { return g.bags == 0 ? 0 : g.offsets[g.bags] - g.offsets[0]; }

/// Entries [range) of the list of all ids: group, then bag, then position.
template <class E>
void write_entries(View<const IdGroup> groups, Range range, E* entries) {
  int64_t passed = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const IdGroup& group = groups[g];
    const int64_t count = ids_of(group);
    const int64_t from = std::max<int64_t>(range.begin - passed, 0);
    const int64_t to = std::min(range.end - passed, count);
    if (from < to) {
      const int64_t base = group.offsets[0];
      const int64_t* end = group.offsets + group.bags + 1;
      int64_t bag = std::upper_bound(group.offsets, end, base + from) - group.offsets - 1;
      for (int64_t k = from; k < to; ++k) {
        while (group.offsets[bag + 1] <= base + k) ++bag;
        entries[passed + k] = {static_cast<decltype(E::row)>(group.ids[base + k]),
                               {static_cast<int32_t>(g), static_cast<int32_t>(bag)}};
      }
    }
    passed += count;
  }
}

/// One stable pass by one digit. counters: [parts, buckets].
template <class E>
void radix_pass(const E* from, E* to, int64_t count, int shift, const Digits& digits, int parts,
                int64_t* counters) {
  const int64_t buckets = digits.buckets();
  const uint64_t mask = static_cast<uint64_t>(buckets - 1);
  const auto bucket = [&](const E& e) { return (static_cast<uint64_t>(e.row) >> shift) & mask; };
  parallel(parts, [&](int part) {
    int64_t* mine = counters + part * buckets;
    std::fill_n(mine, buckets, 0);
    const Range range = part_of(count, part, parts);
    for (int64_t k = range.begin; k < range.end; ++k) ++mine[bucket(from[k])];
  });
  int64_t next = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    for (int part = 0; part < parts; ++part) {
      int64_t& at = counters[part * buckets + b];
      const int64_t here = at;
      at = next;
      next += here;
    }
  }
  parallel(parts, [&](int part) {
    int64_t* mine = counters + part * buckets;
    const Range range = part_of(count, part, parts);
    for (int64_t k = range.begin; k < range.end; ++k) to[mine[bucket(from[k])]++] = from[k];
  });
}

/// Cuts sorted entries into runs. firsts: [parts + 1] scratch.
template <class E>
void write_runs(const E* sorted, int64_t count, int parts, int64_t* firsts, const RowRuns& runs) {
  const auto begins = [&](int64_t k) { return k == 0 || sorted[k].row != sorted[k - 1].row; };
  parallel(parts, [&](int part) {
    const Range range = part_of(count, part, parts);
    int64_t found = 0;
    for (int64_t k = range.begin; k < range.end; ++k) found += begins(k);
    firsts[part + 1] = found;
  });
  firsts[0] = 0;
  for (int part = 0; part < parts; ++part) firsts[part + 1] += firsts[part];
  parallel(parts, [&](int part) {
    const Range range = part_of(count, part, parts);
    int64_t run = firsts[part];
    for (int64_t k = range.begin; k < range.end; ++k) {
      runs.occurrences[static_cast<size_t>(k)] = sorted[k].at;
      if (!begins(k)) continue;
      runs.rows[static_cast<size_t>(run)] = static_cast<int64_t>(sorted[k].row);
      runs.starts[static_cast<size_t>(run++)] = k;
    }
  });
  runs.starts[static_cast<size_t>(firsts[parts])] = count;
  runs.count[0] = firsts[parts];
}

}  // namespace

template <class E>
void CpuOps::sort_rows(View<const IdGroup> groups, int64_t rows, int64_t nnz, RowRuns runs) {
  const Digits digits(rows, nnz);
  const int parts = parts_for(threads_, nnz, kGrain);
  entries_.reserve(2 * static_cast<size_t>(nnz) * sizeof(E));
  counters_.reserve(static_cast<size_t>(parts * digits.buckets() + parts + 1));
  E* sorted = reinterpret_cast<E*>(entries_.data());
  E* other = sorted + nnz;
  parallel(parts, [&](int part) { write_entries(groups, part_of(nnz, part, parts), sorted); });
  for (int pass = 0; pass < digits.passes; ++pass) {
    radix_pass(sorted, other, nnz, pass * digits.bits, digits, parts, counters_.data());
    std::swap(sorted, other);
  }
  write_runs(sorted, nnz, parts, counters_.data(), runs);
}

void CpuOps::group_rows(View<const IdGroup> groups, int64_t rows, RowRuns runs) {
  int64_t nnz = 0;
  for (const IdGroup& g : groups) nnz += ids_of(g);
  DLRM_CHECK(runs.occurrences.size() >= static_cast<size_t>(nnz), "room for {} of {} ids",
             runs.occurrences.size(), nnz);
  if (rows <= int64_t{std::numeric_limits<uint32_t>::max()}) {
    sort_rows<Entry<uint32_t>>(groups, rows, nnz, runs);
  } else {
    sort_rows<Entry<uint64_t>>(groups, rows, nnz, runs);
  }
}

}  // namespace dlrm::cpu
