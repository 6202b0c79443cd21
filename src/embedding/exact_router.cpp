#include <algorithm>

#include "dlrm/wire/message_bytes.h"
#include "dlrm/wire/sample_code.h"

#include "router.h"

namespace dlrm {
namespace {

/// A slice that may receive ids of a table.
struct Target {
  int first_group = 0;  ///< numbered over all owners
  int64_t first_row = 0;
  bool all_rows = false;  ///< it has all rows, so it receives the bags unchanged
};

/// A table's rows cut at every slice border, and the slices that hold each piece.
struct TableCuts {
  std::vector<int64_t> cuts;  ///< [pieces + 1], from 0 to rows
  std::vector<Target> targets;
  std::vector<int> first_of_piece;  ///< [pieces + 1] into of_piece
  std::vector<int> of_piece;        ///< targets of each piece, without those of all rows
  double pieces_per_row = 0;

  int64_t pieces() const { return static_cast<int64_t>(cuts.size()) - 1; }
  View<const int> targets_of(size_t piece) const {
    const auto first = static_cast<size_t>(first_of_piece[piece]);
    return {of_piece.data() + first, static_cast<size_t>(first_of_piece[piece + 1]) - first};
  }
  /// The piece that contains `row`. Plans make pieces of near-equal size, so the first guess is
  /// right or close.
  size_t piece_of(int64_t row) const {
    auto p = static_cast<size_t>(static_cast<double>(row) * pieces_per_row);
    while (row < cuts[p]) --p;
    while (row >= cuts[p + 1]) ++p;
    return p;
  }
};

TableCuts cuts_of(const EmbeddingLayout& layout, int table, int64_t rows) {
  TableCuts result;
  result.cuts = {0, rows};
  std::vector<Range> ranges;
  for (const OwnerLayout& owner : layout.owners) {
    for (const Slice& slice : owner.slices) {
      if (slice.table != table) continue;
      result.targets.push_back(
          {owner.first_group + slice.first_group, slice.rows.begin, slice.all_rows});
      ranges.push_back(slice.rows);
      result.cuts.push_back(slice.rows.begin);
      result.cuts.push_back(slice.rows.end);
    }
  }
  std::sort(result.cuts.begin(), result.cuts.end());
  result.cuts.erase(std::unique(result.cuts.begin(), result.cuts.end()), result.cuts.end());
  for (size_t p = 0; p + 1 < result.cuts.size(); ++p) {
    result.first_of_piece.push_back(static_cast<int>(result.of_piece.size()));
    for (size_t t = 0; t < ranges.size(); ++t) {
      const bool holds = ranges[t].begin <= result.cuts[p] && result.cuts[p] < ranges[t].end;
      if (holds && !result.targets[t].all_rows) {
        result.of_piece.push_back(static_cast<int>(t));
      }
    }
  }
  result.first_of_piece.push_back(static_cast<int>(result.of_piece.size()));
  // Slightly less than the exact ratio, so that the guess is never past the last piece.
  result.pieces_per_row =
      static_cast<double>(result.pieces()) / static_cast<double>(rows) * (1.0 - 1e-12);
  return result;
}

class ExactRouter final : public Router {
 public:
  ExactRouter(Context& context, const EmbeddingLayout& layout, int capacity, int threads,
              RowPlacement* placement)
      : Router(context, layout, capacity, threads, placement) {
    for (size_t t = 0; t + 1 < layout.first_feature.size(); ++t) {
      const auto first = static_cast<size_t>(layout.first_feature[t]);
      tables_.push_back(cuts_of(layout, static_cast<int>(t), layout.features[first].rows));
    }
    headers_.resize(static_cast<size_t>(layout.groups));
    group_samples_.resize(headers_.size());
    for (const OwnerLayout& owner : layout.owners) {
      for (size_t g = 0; g < owner.groups.size(); ++g) {
        if (!owner.groups[g].skips_empty_bags) continue;
        returned_.push_back({static_cast<size_t>(owner.first_group) + g,
                             static_cast<size_t>(owner.groups[g].feature)});
      }
    }
    for (const RoutedGroup& group : layout.owner(rank()).groups) {
      with_samples_.push_back(group.skips_empty_bags);
    }
    work_.resize(layout.features.size());
    for (size_t f = 0; f < work_.size(); ++f) {
      const TableCuts& table = cuts_for(f);
      work_[f].piece_counts.resize(static_cast<size_t>(table.pieces()));
      work_[f].ids.resize(table.targets.size());
      work_[f].samples.resize(table.targets.size());
    }
  }

 private:
  /// Working memory for bucketing one feature: counts, and each target's position in its message.
  struct FeatureWork {
    std::vector<int64_t> piece_counts;
    std::vector<int32_t> pieces;  ///< by id
    std::vector<char*> ids;
    std::vector<int32_t*> samples;
  };

  const TableCuts& cuts_for(size_t feature) const {
    return tables_[static_cast<size_t>(layout_.features[feature].table)];
  }
  size_t header_of(size_t feature, const Target& target) const {
    const auto table = static_cast<size_t>(layout_.features[feature].table);
    const size_t within = feature - static_cast<size_t>(layout_.first_feature[table]);
    return static_cast<size_t>(target.first_group) + within;
  }
  View<const GroupHeader> headers_for(size_t q) const {
    const OwnerLayout& owner = layout_.owners[q];
    return {headers_.data() + owner.first_group, owner.groups.size()};
  }

  void reserve(const LocalBags& bags, const std::vector<BagScan>& scans, Transfer& transfer,
               std::vector<IdDestination>& destinations) override {
    transfer.batch.requester.begin(layout_, bags, scans, RequesterSide::Keep::kReplicated,
                                   returned_.size(), threads_for(bags.ids.size()), destinations);
  }

  void encode(const LocalBags& bags, const std::vector<BagScan>& scans,
              Transfer& transfer) override {
    const auto features = static_cast<int64_t>(layout_.features.size());
    const int64_t b = bags.local.size();
    const int threads = threads_for(bags.ids.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t f = 0; f < features; ++f) {
      count(static_cast<size_t>(f), bags.ids.data() + bags.offsets[static_cast<size_t>(f * b)],
            scans[static_cast<size_t>(f)]);
    }
    for (size_t q = 0; q < layout_.owners.size(); ++q) {
      transfer.send_sizes[q] = message_bytes(headers_for(q), b, id_bytes_);
    }
    grow(transfer.send, offsets_of(transfer.send_sizes, transfer.layout.send_offsets));
    spans_.clear();
    for (size_t q = 0; q < layout_.owners.size(); ++q) {
      begin_message(transfer.send.data() + transfer.layout.send_offsets[q], headers_for(q), b,
                    id_bytes_, spans_);
    }
    place_samples();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t f = 0; f < features; ++f) {
      fill(static_cast<size_t>(f), bags.ids.data(), bags.offsets.data() + f * b, b);
    }
    add_returned(scans, threads, transfer.batch.requester);
  }

  /// Reserves the list of samples of each group whose lengths are coded.
  void place_samples() {
    size_t total = 0;
    for (const GroupHeader& header : headers_) {
      if (header.lengths == BagLengths::kCoded) total += static_cast<size_t>(header.count);
    }
    if (samples_.size() < total) samples_.resize(total);
    int32_t* next = samples_.data();
    for (size_t g = 0; g < headers_.size(); ++g) {
      const bool coded = headers_[g].lengths == BagLengths::kCoded;
      group_samples_[g] = {next, coded ? static_cast<size_t>(headers_[g].count) : 0};
      next += group_samples_[g].size();
    }
  }

  /// Finds the bags that owners will return from the samples that are sent to them.
  void add_returned(const std::vector<BagScan>& scans, int threads,
                    RequesterSide& requester) const {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < returned_.size(); ++i) {
      const auto [number, f] = returned_[i];
      const bool alone = scans[f].length == 1 && layout_.features[f].hotness == 1;
      requester.add_returned(i, number, f, group_samples_[number], alone);
    }
  }

  void count(size_t feature, const int64_t* ids, const BagScan& scan) {
    const TableCuts& table = cuts_for(feature);
    const GroupHeader all = whole_bags(scan);
    for (const Target& target : table.targets) {
      headers_[header_of(feature, target)] =
          target.all_rows ? all : GroupHeader{BagLengths::kCoded, 0, 0};
    }
    if (table.pieces() == 1) return;
    FeatureWork& work = work_[feature];
    std::vector<int64_t>& counts = work.piece_counts;
    std::fill(counts.begin(), counts.end(), 0);
    work.pieces.resize(std::max(work.pieces.size(), static_cast<size_t>(scan.count)));
    for (int64_t k = 0; k < scan.count; ++k) {
      const size_t piece = table.piece_of(ids[k]);
      work.pieces[static_cast<size_t>(k)] = static_cast<int32_t>(piece);
      ++counts[piece];
    }
    for (size_t p = 0; p < counts.size(); ++p) {
      for (const int t : table.targets_of(p)) {
        headers_[header_of(feature, table.targets[static_cast<size_t>(t)])].count +=
            static_cast<int32_t>(counts[p]);
      }
    }
  }

  void fill(size_t feature, const int64_t* ids, const int64_t* offsets, int64_t samples) {
    const TableCuts& table = cuts_for(feature);
    FeatureWork& work = work_[feature];
    for (size_t t = 0; t < table.targets.size(); ++t) {
      const GroupSpan& span = spans_[header_of(feature, table.targets[t])];
      if (table.targets[t].all_rows) {
        write_bags(span, id_bytes_, ids, offsets, samples);
        continue;
      }
      work.ids[t] = span.ids;
      work.samples[t] = group_samples_[header_of(feature, table.targets[t])].data();
    }
    if (table.pieces() == 1) return;
    id_bytes_ == 8 ? bucket<int64_t>(table, work, ids, offsets, samples)
                   : bucket<int32_t>(table, work, ids, offsets, samples);
    for (const Target& target : table.targets) {
      const size_t group = header_of(feature, target);
      if (!target.all_rows) write_samples(group_samples_[group], samples, spans_[group].code);
    }
  }

  /// Stable: each target gets its ids in the order of samples and positions.
  template <class Id>
  static void bucket(const TableCuts& table, FeatureWork& work, const int64_t* ids,
                     const int64_t* offsets, int64_t samples) {
    const int32_t* piece = work.pieces.data();
    for (int64_t i = 0; i < samples; ++i) {
      for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k, ++piece) {
        for (const int target : table.targets_of(static_cast<size_t>(*piece))) {
          const auto t = static_cast<size_t>(target);
          *reinterpret_cast<Id*>(work.ids[t]) =
              static_cast<Id>(ids[k] - table.targets[t].first_row);
          work.ids[t] += sizeof(Id);
          *work.samples[t]++ = static_cast<int32_t>(i);
        }
      }
    }
  }

  Pending start_sizes(Transfer& transfer) override {
    bytes_sent_ += (world() - 1) * kSizeBytes;
    return sizes_comm_->start_alltoallv(transfer.send_sizes.data(), transfer.receive_sizes.data(),
                                        transfer.sizes_layout);
  }

  Pending start_messages(Transfer& transfer) override {
    ExchangeLayout& layout = transfer.layout;
    layout.send_bytes = transfer.send_sizes;
    layout.receive_bytes = transfer.receive_sizes;
    grow(transfer.receive, offsets_of(layout.receive_bytes, layout.receive_offsets));
    for (size_t q = 0; q < layout.send_bytes.size(); ++q) {
      if (static_cast<int>(q) != rank()) bytes_sent_ += layout.send_bytes[q];
    }
    return messages_comm_->start_alltoallv(transfer.send.data(), transfer.receive.data(), layout);
  }

  void assemble(Transfer& transfer) override {
    const OwnerLayout& mine = layout_.owner(rank());
    const auto groups = static_cast<int64_t>(mine.groups.size());
    received_.clear();
    for (int p = 0; p < world(); ++p) {
      const auto source = static_cast<size_t>(p);
      const View<char> message(transfer.receive.data() + transfer.layout.receive_offsets[source],
                               static_cast<size_t>(transfer.layout.receive_bytes[source]));
      open_message(message, groups, samples_of(transfer, p), id_bytes_, received_);
    }
    const auto span = [&](int p, int64_t g) -> const GroupSpan& {
      return received_[static_cast<size_t>(p * groups + g)];
    };
    counts_.assign(static_cast<size_t>(groups), 0);
    for (int p = 0; p < world(); ++p) {
      for (int64_t g = 0; g < groups; ++g)
        counts_[static_cast<size_t>(g)] += span(p, g).header.count;
    }
    OwnerSide& owner = transfer.batch.owner;
    const size_t pieces = mine.by_source ? static_cast<size_t>(world()) : 1;
    const int threads = threads_for(owner.reserve_groups(
        counts_, transfer.batch.global_size, pieces, id_bytes_ == 4, with_samples_, buffers_));
    const auto spans_of = [&](int64_t g) { return [&span, g](int p) { return span(p, g); }; };
    bool sound = true;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(&& : sound)
    for (int64_t g = 0; g < groups; ++g) {
      sound = (owner.narrow() ? assemble_group<int32_t>(transfer, g, spans_of(g))
                              : assemble_group<int64_t>(transfer, g, spans_of(g))) &&
              sound;
    }
    if (!sound) throw_damaged_message();
  }

  /// Assembles a group's bags from the messages of all ranks. Returns false if one is damaged.
  template <class T, class Spans>
  bool assemble_group(Transfer& transfer, int64_t g, const Spans& span_of) {
    const OwnerLayout& mine = layout_.owner(rank());
    const OwnerSide::GroupBuffer& buffer = buffers_[static_cast<size_t>(g)];
    const RoutedGroup& group = mine.groups[static_cast<size_t>(g)];
    const int64_t pieces = mine.by_source ? world() : 1;
    const T* const ids = static_cast<T*>(buffer.ids);
    BagCursor<T> cursor{static_cast<T*>(buffer.ids), static_cast<T*>(buffer.offsets),
                        buffer.samples};
    *cursor.offsets = 0;
    const T* first = cursor.offsets;
    const int32_t* first_sample = cursor.samples;
    for (int p = 0; p < world(); ++p) {
      const int64_t samples = samples_of(transfer, p);
      if (samples > 0 && !read_group(group, span_of(p), samples, cursor)) return false;
      if (!mine.by_source && p + 1 < world()) continue;
      transfer.batch.owner.set_piece(static_cast<size_t>(g * pieces + (mine.by_source ? p : 0)),
                                     ids, first, cursor.offsets - first, first_sample);
      first = cursor.offsets;
      first_sample = cursor.samples;
    }
    return true;
  }

  /// Appends a group's bags from the message of one rank. Returns false if it is damaged.
  template <class T>
  bool read_group(const RoutedGroup& group, const GroupSpan& span, int64_t samples,
                  BagCursor<T>& cursor) const {
    const Slice& slice = layout_.owner(rank()).slices[static_cast<size_t>(group.slice)];
    const bool coded = span.header.lengths == BagLengths::kCoded;
    if (coded == slice.all_rows) return false;
    if (coded) return read_coded_bags(span, id_bytes_, samples, group.skips_empty_bags, cursor);
    read_bags(span, id_bytes_, samples, cursor);
    return true;
  }

  std::vector<TableCuts> tables_;
  /// A group of which only non-empty bags are returned.
  struct ReturnedGroup {
    size_t number;  ///< over all owners
    size_t feature;
  };
  std::vector<ReturnedGroup> returned_;
  std::vector<GroupHeader> headers_;          ///< owner-major, then group
  std::vector<GroupSpan> spans_;              ///< owner-major, then group
  std::vector<int32_t> samples_;              ///< of ids whose groups' lengths are coded
  std::vector<View<int32_t>> group_samples_;  ///< owner-major, then group; part of samples_
  std::vector<GroupSpan> received_;           ///< source-major, then group
  std::vector<FeatureWork> work_;
  std::vector<int64_t> counts_;
  std::vector<OwnerSide::GroupBuffer> buffers_;
  std::vector<bool> with_samples_;  ///< by group of this owner
};

}  // namespace

std::unique_ptr<Router> make_exact_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement) {
  return std::make_unique<ExactRouter>(context, layout, capacity, threads, placement);
}

}  // namespace dlrm
