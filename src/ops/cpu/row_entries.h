#pragma once
// The ids of a table as entries of a radix sort, and its steps in one thread.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "dlrm/core/partition.h"
#include "dlrm/ops/embedding.h"

namespace dlrm::cpu {

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

inline int bits_of(int64_t values) {
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
  /// Calls body with an entry of the type that these ids need.
  template <class Body>
  void with_entry(const Body& body) const {
    if (weighted) return body(WeightedEntry());
    if (compact) return body(Entry());
    body(WideEntry());
  }
  /// Bytes of two lists of entries.
  size_t scratch_bytes() const {
    size_t bytes = 0;
    with_entry([&]<class E>(E) { bytes = 2 * static_cast<size_t>(count) * sizeof(E); });
    return bytes;
  }
  static int64_t ids_of(const IdGroup& g) {
    return g.bags == 0 ? 0 : g.offsets[g.bags] - g.offsets[0];
  }
};

/// A digit of rows in a radix sort.
struct Digit {
  int shift;
  uint64_t mask;
  uint64_t of(uint64_t row) const { return row >> shift & mask; }
  template <class E>
  uint64_t of(const E& entry) const {
    return of(static_cast<uint64_t>(entry.row));
  }
};

/// All digits of the bits that rows need.
struct Digits {
  int passes;
  int bits;
  int64_t buckets() const { return int64_t{1} << bits; }
  Digit of_pass(int pass) const { return {pass * bits, static_cast<uint64_t>(buckets() - 1)}; }

  explicit Digits(const Ids& ids) {
    const int needed = std::max(1, bits_of(ids.rows));
    // A pass also scans its buckets, so a few ids are sorted faster with narrower digits.
    const int widest = ids.count < 512 ? 6 : ids.count < 8192 ? 8 : 11;
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
void write_and_count(const Ids& ids, Digits digits, E* entries, int64_t* counters) {
  std::fill_n(counters, digits.passes * digits.buckets(), 0);
  for (size_t g = 0; g < ids.groups.size(); ++g) {
    const IdGroup& group = ids.groups[g];
    for (int64_t bag = 0; bag < group.bags; ++bag) {
      for (int64_t k = group.offsets[bag]; k < group.offsets[bag + 1]; ++k) {
        const auto row = static_cast<uint64_t>(group.ids[k]);
        *entries++ = E::of(group.ids[k], g, bag, ids.bag_bits, group, k);
        int64_t* counts = counters;
        for (int pass = 0; pass < digits.passes; ++pass, counts += digits.buckets()) {
          ++counts[digits.of_pass(pass).of(row)];
        }
      }
    }
  }
}

/// Turns the counts of values into the index of each value's first entry.
inline void counts_to_starts(int64_t* counts, int64_t buckets) {
  int64_t next = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    const int64_t here = counts[b];
    counts[b] = next;
    next += here;
  }
}

/// Moves entries [range) to the places of their digit, in order. starts: [buckets].
template <class E>
void scatter(const E* from, E* to, Range range, Digit digit, int64_t* starts) {
  for (int64_t k = range.begin; k < range.end; ++k) to[starts[digit.of(from[k])]++] = from[k];
}

/// The segments that begin in [range).
template <class E>
int64_t count_runs(const E* sorted, Range range) {
  int64_t found = 0;
  for (int64_t k = range.begin; k < range.end; ++k) {
    found += k == 0 || sorted[k].row != sorted[k - 1].row;
  }
  return found;
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

inline void end_runs(int64_t found, int64_t count, const SegmentedRows& runs) {
  runs.starts[static_cast<size_t>(found)] = count;
  runs.count[0] = found;
}

/// Sorts all ids in the calling thread. entries: [2·count]; counters: [passes, buckets].
template <class E>
void sort_alone(const Ids& ids, const Digits& digits, E* entries, int64_t* counters,
                const SegmentedRows& runs) {
  E* sorted = entries;
  E* other = sorted + ids.count;
  write_and_count(ids, digits, sorted, counters);
  for (int pass = 0; pass < digits.passes; ++pass, counters += digits.buckets()) {
    counts_to_starts(counters, digits.buckets());
    scatter(sorted, other, {0, ids.count}, digits.of_pass(pass), counters);
    std::swap(sorted, other);
  }
  end_runs(cut_runs(sorted, {0, ids.count}, ids.bag_bits, 0, runs), ids.count, runs);
}

}  // namespace dlrm::cpu
