#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

#include "dlrm/core/error.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kGrain = 2048;  // ids per thread

/// An id and its occurrence, for any row, group and bag.
struct WideEntry {
  uint64_t row;
  Occurrence at;
  static WideEntry of(int64_t row, size_t group, int64_t bag, int, const IdGroup&, int64_t) {
    return {static_cast<uint64_t>(row), {static_cast<int32_t>(group), static_cast<int32_t>(bag)}};
  }
  Occurrence place(int) const { return at; }
};

/// The same with the id's weight.
struct WeightedEntry {
  uint64_t row;
  Occurrence at;
  float weight;
  static WeightedEntry of(int64_t row, size_t group, int64_t bag, int, const IdGroup& ids,
                          int64_t k) {
    return {static_cast<uint64_t>(row),
            {static_cast<int32_t>(group), static_cast<int32_t>(bag)},
            ids.weights ? ids.weights[k] : 1.0f};
  }
  Occurrence place(int) const { return at; }
};

/// Half the size of WideEntry, for rows and places of at most 32 bits each. The place is group ·
/// 2^bag_bits + bag.
struct Entry {
  uint32_t row;
  uint32_t at;
  static Entry of(int64_t row, size_t group, int64_t bag, int bag_bits, const IdGroup&, int64_t) {
    return {static_cast<uint32_t>(row),
            static_cast<uint32_t>(group << bag_bits | static_cast<size_t>(bag))};
  }
  Occurrence place(int bag_bits) const {
    return {static_cast<int32_t>(at >> bag_bits),
            static_cast<int32_t>(at & ((uint32_t{1} << bag_bits) - 1))};
  }
};

int bits_of(int64_t values) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(values, 1) - 1)));
}

/// The ids of some groups, and the parameters for sorting them.
struct Ids {
  View<const IdGroup> groups;
  int64_t rows = 0;
  int64_t count = 0;
  int bag_bits = 0;
  bool compact = false;
  bool weighted = false;

  Ids(View<const IdGroup> all, int64_t table_rows, const SegmentedRows& runs)
      : groups(all), rows(table_rows), weighted(!runs.weights.empty()) {
    int64_t bags = 0;
    for (const IdGroup& g : all) {
      bags = std::max(bags, g.bags);
      count += ids_of(g);
    }
    bag_bits = std::min(bits_of(bags), 31);
    compact = rows <= int64_t{std::numeric_limits<uint32_t>::max()} &&
              bag_bits + bits_of(static_cast<int64_t>(all.size())) <= 32;
  }
  size_t scratch_bytes() const {
    const size_t entry = weighted  ? sizeof(WeightedEntry)
                         : compact ? sizeof(Entry)
                                   : sizeof(WideEntry);
    return 2 * static_cast<size_t>(count) * entry;
  }
  static int64_t ids_of(const IdGroup& g) {
    return g.bags == 0 ? 0 : g.offsets[g.bags] - g.offsets[0];
  }
};

/// Digits of a radix sort over the `bits` that rows need.
struct Digits {
  int passes;
  int bits;
  int64_t buckets() const { return int64_t{1} << bits; }

  Digits(int64_t rows, int64_t count) {
    const int needed = std::max(1, bits_of(rows));
    // A pass also scans its buckets, so a few ids are sorted faster with narrower digits.
    const int widest = count < 512 ? 6 : count < 8192 ? 8 : 11;
    passes = (needed + widest - 1) / widest;
    bits = (needed + passes - 1) / passes;
  }
};

/// Writes entries [range) of the list of all ids, ordered by group, then bag, then position.
template <class E>
void write_entries(const Ids& ids, Range range, E* entries) {
  int64_t passed = 0;
  for (size_t g = 0; g < ids.groups.size(); ++g) {
    const IdGroup& group = ids.groups[g];
    const int64_t count = Ids::ids_of(group);
    const int64_t from = std::max<int64_t>(range.begin - passed, 0);
    const int64_t to = std::min(range.end - passed, count);
    if (from < to) {
      const int64_t base = group.offsets[0];
      const int64_t* end = group.offsets + group.bags + 1;
      int64_t bag = std::upper_bound(group.offsets, end, base + from) - group.offsets - 1;
      for (int64_t k = from; k < to; ++k) {
        while (group.offsets[bag + 1] <= base + k) ++bag;
        entries[passed + k] = E::of(group.ids[base + k], g, bag, ids.bag_bits, group, base + k);
      }
    }
    passed += count;
  }
}

/// Writes the list of all ids and counts the values of each digit: counters [passes, buckets].
template <class E>
void write_and_count(const Ids& ids, const Digits& digits, E* entries, int64_t* counters) {
  const uint64_t mask = static_cast<uint64_t>(digits.buckets() - 1);
  std::fill_n(counters, digits.passes * digits.buckets(), 0);
  for (size_t g = 0; g < ids.groups.size(); ++g) {
    const IdGroup& group = ids.groups[g];
    for (int64_t bag = 0; bag < group.bags; ++bag) {
      for (int64_t k = group.offsets[bag]; k < group.offsets[bag + 1]; ++k) {
        const auto row = static_cast<uint64_t>(group.ids[k]);
        *entries++ = E::of(group.ids[k], g, bag, ids.bag_bits, group, k);
        int64_t* counts = counters;
        for (int pass = 0; pass < digits.passes; ++pass, counts += digits.buckets()) {
          ++counts[row >> (pass * digits.bits) & mask];
        }
      }
    }
  }
}

/// Turns the counts of values into the index of each value's first entry.
void counts_to_starts(int64_t* counts, int64_t buckets) {
  int64_t next = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    const int64_t here = counts[b];
    counts[b] = next;
    next += here;
  }
}

/// One stable pass by one digit, in one thread. starts: [buckets].
template <class E>
void scatter(const E* from, E* to, int64_t count, int shift, uint64_t mask, int64_t* starts) {
  for (int64_t k = 0; k < count; ++k) {
    to[starts[static_cast<uint64_t>(from[k].row) >> shift & mask]++] = from[k];
  }
}

/// One stable pass by one digit. counters: [parts, buckets].
template <class E>
void radix_pass(const E* from, E* to, int64_t count, int shift, const Digits& digits, Parts parts,
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

/// Cuts entries [range) into segments. The first one has number `run`. Returns the next number.
template <class E>
int64_t cut_runs(const E* sorted, Range range, int bag_bits, int64_t run,
                 const SegmentedRows& runs) {
  for (int64_t k = range.begin; k < range.end; ++k) {
    runs.occurrences[static_cast<size_t>(k)] = sorted[k].place(bag_bits);
    if constexpr (requires { sorted[k].weight; }) {
      runs.weights[static_cast<size_t>(k)] = sorted[k].weight;
    }
    if (k > 0 && sorted[k].row == sorted[k - 1].row) continue;
    runs.rows[static_cast<size_t>(run)] = static_cast<int64_t>(sorted[k].row);
    runs.starts[static_cast<size_t>(run++)] = k;
  }
  return run;
}

void end_runs(int64_t found, int64_t count, const SegmentedRows& runs) {
  runs.starts[static_cast<size_t>(found)] = count;
  runs.count[0] = found;
}

/// Cuts sorted entries into segments. firsts: [parts + 1] scratch.
template <class E>
void write_runs(const E* sorted, int64_t count, int bag_bits, Parts parts, int64_t* firsts,
                const SegmentedRows& runs) {
  parallel(parts, [&](int part) {
    const Range range = part_of(count, part, parts);
    int64_t found = 0;
    for (int64_t k = range.begin; k < range.end; ++k) {
      found += k == 0 || sorted[k].row != sorted[k - 1].row;
    }
    firsts[part + 1] = found;
  });
  firsts[0] = 0;
  for (int part = 0; part < parts; ++part) firsts[part + 1] += firsts[part];
  parallel(parts, [&](int part) {
    cut_runs(sorted, part_of(count, part, parts), bag_bits, firsts[part], runs);
  });
  end_runs(firsts[parts], count, runs);
}

/// entries: [2·count]; counters: counters_for() of one part.
template <class E>
void sort_rows_alone(const Ids& ids, const Digits& digits, E* entries, int64_t* counters,
                     const SegmentedRows& runs) {
  E* sorted = entries;
  E* other = sorted + ids.count;
  const uint64_t mask = static_cast<uint64_t>(digits.buckets() - 1);
  write_and_count(ids, digits, sorted, counters);
  for (int pass = 0; pass < digits.passes; ++pass, counters += digits.buckets()) {
    counts_to_starts(counters, digits.buckets());
    scatter(sorted, other, ids.count, pass * digits.bits, mask, counters);
    std::swap(sorted, other);
  }
  end_runs(cut_runs(sorted, {0, ids.count}, ids.bag_bits, 0, runs), ids.count, runs);
}

/// entries: [2·count]; counters: counters_for() of `parts` parts.
template <class E>
void sort_rows(const Ids& ids, Parts parts, E* entries, int64_t* counters,
               const SegmentedRows& runs) {
  const Digits digits(ids.rows, ids.count);
  if (parts == 1) return sort_rows_alone(ids, digits, entries, counters, runs);
  E* sorted = entries;
  E* other = sorted + ids.count;
  parallel(parts, [&](int part) { write_entries(ids, part_of(ids.count, part, parts), sorted); });
  for (int pass = 0; pass < digits.passes; ++pass) {
    radix_pass(sorted, other, ids.count, pass * digits.bits, digits, parts, counters);
    std::swap(sorted, other);
  }
  write_runs(sorted, ids.count, ids.bag_bits, parts, counters, runs);
}

int64_t counters_for(const Ids& ids, Parts parts) {
  const Digits digits(ids.rows, ids.count);
  return parts == 1 ? digits.passes * digits.buckets() : parts * digits.buckets() + parts + 1;
}

void sort_rows(const Ids& ids, Parts parts, char* entries, int64_t* counters,
               const SegmentedRows& runs) {
  DLRM_CHECK(runs.occurrences.size() >= static_cast<size_t>(ids.count), "room for {} of {} ids",
             runs.occurrences.size(), ids.count);
  if (ids.weighted) {
    sort_rows(ids, parts, reinterpret_cast<WeightedEntry*>(entries), counters, runs);
  } else if (ids.compact) {
    sort_rows(ids, parts, reinterpret_cast<Entry*>(entries), counters, runs);
  } else {
    sort_rows(ids, parts, reinterpret_cast<WideEntry*>(entries), counters, runs);
  }
}

}  // namespace

void CpuOps::run(const GroupRows& o) {
  const auto& [groups, rows, runs] = o;
  const Ids ids(groups, rows, runs);
  const Parts parts = parts_for(threads_, ids.count, kGrain);
  entries_.reserve(ids.scratch_bytes());
  counters_.reserve(static_cast<size_t>(counters_for(ids, parts)));
  sort_rows(ids, parts, entries_.data(), counters_.data(), runs);
}

void CpuOps::run(const GroupShardRows& o) {
  const auto& [shards, progress] = o;
  // With many shards, each is sorted by one thread. There are no barriers, and the data stays in
  // that thread's cache.
  if (shards.size() < 2 * static_cast<size_t>(threads_)) {
    Ops::run(o);
    return;
  }
  size_t bytes = 0;
  int64_t counters = 0, total = 0;
  for (const UpdatedShard& shard : shards) {
    const Ids ids(shard.groups, shard.table.rows, shard.runs);
    bytes = std::max(bytes, ids.scratch_bytes());
    counters = std::max(counters, counters_for(ids, Parts()));
    total += ids.count;
  }
  bytes = (bytes + 63) / 64 * 64;
  const Parts parts = parts_for(threads_, total, kGrain);
  entries_.reserve(bytes * static_cast<size_t>(parts));
  counters_.reserve(static_cast<size_t>(counters * parts));
  std::atomic<size_t> next{0};
  parallel(parts, [&](int part) {
    int64_t since_progress = 0;
    for (size_t i = next++; i < shards.size(); i = next++) {
      const Ids ids(shards[i].groups, shards[i].table.rows, shards[i].runs);
      sort_rows(ids, Parts(), entries_.data() + bytes * static_cast<size_t>(part),
                counters_.data() + counters * part, shards[i].runs);
      since_progress += ids.count;
      if (parts > 1 || since_progress < kGrain) continue;
      progress();
      since_progress = 0;
    }
  });
  progress();
}

}  // namespace dlrm::cpu
