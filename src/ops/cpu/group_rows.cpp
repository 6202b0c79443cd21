#include <atomic>
#include <utility>

#include "dlrm/core/error.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"
#include "cpu/row_entries.h"
#include "cpu/row_sorter.h"

namespace dlrm::cpu {

/// A table that several threads sort. Consecutive parts have a piece each of the list of its ids.
struct CutTable {
  Ids ids;
  Digits digits;
  const SegmentedRows* runs;
  int64_t first;       ///< place in the list of the ids of all cut tables
  int first_part = 0;  ///< of those that have a piece
  int pieces = 0;
  char* entries = nullptr;
  int64_t* counters = nullptr;  ///< [pieces, buckets]
  int64_t* sums = nullptr;      ///< [pieces]
  int64_t* counters_of(int piece) const { return counters + piece * digits.buckets(); }
};

namespace {

constexpr int64_t kGroupingGrain = 2048;  // ids per thread

size_t to_cache_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A part's piece of a cut table.
struct Piece {
  int number;
  Range range;  ///< in the list of the table's ids
};

// The phases of cut tables: those of each digit, then those of the segments. All threads must have
// ended one before the next begins.
enum DigitPhase : int { kCountDigits, kAddCounts, kMoveEntries, kDigitPhases };
enum SegmentPhase : int { kCountSegments, kWriteSegments, kSegmentPhases };

/// The values of a digit whose counts a piece adds up.
Range values_of(const CutTable& table, int piece) {
  return part_of(table.digits.buckets(), piece, table.pieces);
}

template <class E>
void count_digits(const CutTable& table, const Piece& piece, Digit digit, const E* entries) {
  int64_t* const counts = table.counters_of(piece.number);
  std::fill_n(counts, table.digits.buckets(), 0);
  for (int64_t k = piece.range.begin; k < piece.range.end; ++k) ++counts[digit.of(entries[k])];
}

/// Of some values: each piece's places relative to the first one.
void add_counts(const CutTable& table, const Piece& piece) {
  const Range values = values_of(table, piece.number);
  int64_t next = 0;
  for (int64_t v = values.begin; v < values.end; ++v) {
    for (int p = 0; p < table.pieces; ++p) {
      next += std::exchange(table.counters_of(p)[v], next);
    }
  }
  table.sums[piece.number] = next;
}

template <class E>
void move_entries(const CutTable& table, const Piece& piece, Digit digit, const E* from, E* to) {
  int64_t* const places = table.counters_of(piece.number);
  int64_t first = 0;
  for (int p = 0; p < table.pieces; ++p) {
    const Range values = values_of(table, p);
    for (int64_t v = values.begin; v < values.end; ++v) places[v] += first;
    first += table.sums[p];
  }
  scatter(from, to, piece.range, digit, places);
}

template <class E>
void write_segments(const CutTable& table, const Piece& piece, const E* sorted) {
  int64_t run = 0;
  for (int p = 0; p < piece.number; ++p) run += table.sums[p];
  run = cut_runs(sorted, piece.range, table.ids.bag_bits, run, *table.runs);
  if (piece.number == table.pieces - 1) end_runs(run, table.ids.count, *table.runs);
}

template <class E>
void sort_piece(const CutTable& table, const Piece& piece, int phase) {
  const int pass = phase / kDigitPhases, in_pass = phase % kDigitPhases;
  E* from = reinterpret_cast<E*>(table.entries);
  E* to = from + table.ids.count;
  if (pass % 2 != 0) std::swap(from, to);
  if (pass < table.digits.passes) {
    const Digit digit = table.digits.of_pass(pass);
    if (in_pass == kCountDigits && pass == 0) write_entries(table.ids, piece.range, from);
    if (in_pass == kCountDigits) count_digits(table, piece, digit, from);
    if (in_pass == kAddCounts) add_counts(table, piece);
    if (in_pass == kMoveEntries) move_entries(table, piece, digit, from, to);
  } else if (pass == table.digits.passes) {
    if (in_pass == kCountSegments) table.sums[piece.number] = count_runs(from, piece.range);
    if (in_pass == kWriteSegments) write_segments(table, piece, from);
  }
}

}  // namespace

RowSorter::RowSorter(Device& device, int threads)
    : threads_(threads), entries_(device, 0, "row sorting"), counters_(device, 0, "row sorting") {}
RowSorter::~RowSorter() = default;

void RowSorter::sort(View<const UpdatedShard> shards, const std::function<void()>& progress) {
  int64_t total = 0;
  for (const UpdatedShard& shard : shards) {
    const Ids ids(shard.groups, shard.table.rows, shard.runs);
    DLRM_CHECK(shard.runs.occurrences.size() >= static_cast<size_t>(ids.count),
               "room for {} of {} ids", shard.runs.occurrences.size(), ids.count);
    total += ids.count;
  }
  const Parts parts = parts_for(threads_, total, kGroupingGrain);
  cut(shards, total, parts);
  lay_out(parts);
  int phases = 1;
  for (const CutTable& table : cut_) {
    phases = std::max(phases, kDigitPhases * table.digits.passes + kSegmentPhases);
  }
  std::atomic<size_t> next{0};
  parallel_phases(parts, phases, [&](int part, int phase) {
    sort_pieces(part, parts, phase);
    if (phase + 1 < phases) return;
    int64_t since_progress = 0;
    for (size_t i = next++; i < whole_.size(); i = next++) {
      const UpdatedShard& shard = *whole_[i];
      const Ids ids(shard.groups, shard.table.rows, shard.runs);
      ids.with_entry([&]<class E>(E) {
        sort_alone(ids, Digits(ids),
                   reinterpret_cast<E*>(entries_.data() + whole_bytes_ * static_cast<size_t>(part)),
                   counters_.data() + whole_counters_ * part, shard.runs);
      });
      since_progress += ids.count;
      if (parts > 1 || since_progress < kGroupingGrain) continue;
      progress();
      since_progress = 0;
    }
  });
}

/// Tables of more than half a thread's share of the ids are cut.
void RowSorter::cut(View<const UpdatedShard> shards, int64_t total, int parts) {
  cut_.clear();
  whole_.clear();
  cut_ids_ = 0;
  whole_bytes_ = 0;
  whole_counters_ = 0;
  for (const UpdatedShard& shard : shards) {
    const Ids ids(shard.groups, shard.table.rows, shard.runs);
    const Digits digits(ids);
    const bool serves_several = parts_for(threads_, ids.count, kGroupingGrain) > 1;
    if (parts > 1 && serves_several && 2 * parts * ids.count > total) {
      cut_.push_back({.ids = ids, .digits = digits, .runs = &shard.runs, .first = cut_ids_});
      cut_ids_ += ids.count;
      continue;
    }
    whole_.push_back(&shard);
    whole_bytes_ = std::max(whole_bytes_, to_cache_line(ids.scratch_bytes()));
    whole_counters_ = std::max(whole_counters_, digits.passes * digits.buckets());
  }
}

/// Gives cut tables their pieces and their memory, behind that of whole tables.
void RowSorter::lay_out(int parts) {
  size_t bytes = whole_bytes_ * static_cast<size_t>(parts);
  int64_t counters = whole_counters_ * parts;
  int part = 0;
  for (CutTable& table : cut_) {
    while (part_of(cut_ids_, part, parts).end <= table.first) ++part;
    table.first_part = part;
    while (part_of(cut_ids_, part, parts).end < table.first + table.ids.count) ++part;
    table.pieces = part - table.first_part + 1;
    bytes += to_cache_line(table.ids.scratch_bytes());
    counters += table.pieces * (table.digits.buckets() + 1);
  }
  entries_.reserve(bytes);
  counters_.reserve(static_cast<size_t>(counters));
  char* entries = entries_.data() + whole_bytes_ * static_cast<size_t>(parts);
  int64_t* next = counters_.data() + whole_counters_ * parts;
  for (CutTable& table : cut_) {
    table.entries = entries;
    entries += to_cache_line(table.ids.scratch_bytes());
    table.counters = next;
    table.sums = next + table.pieces * table.digits.buckets();
    next = table.sums + table.pieces;
  }
}

void RowSorter::sort_pieces(int part, int parts, int phase) const {
  const Range mine = part_of(cut_ids_, part, parts);
  for (const CutTable& table : cut_) {
    const Range range{std::max<int64_t>(mine.begin - table.first, 0),
                      std::min(mine.end - table.first, table.ids.count)};
    if (range.size() <= 0) continue;
    const Piece piece{part - table.first_part, range};
    table.ids.with_entry([&]<class E>(E) { sort_piece<E>(table, piece, phase); });
  }
}

void CpuOps::run(const GroupRows& o) {
  UpdatedShard shard;
  shard.table.rows = o.rows;
  shard.groups = o.groups;
  shard.runs = o.runs;
  row_sorter_.sort({&shard, 1}, [] {});
}

void CpuOps::run(const GroupShardRows& o) {
  row_sorter_.sort(o.shards, o.progress);
  o.progress();
}

}  // namespace dlrm::cpu
