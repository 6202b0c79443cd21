#include <algorithm>

#include "dlrm/wire/message_bytes.h"
#include "dlrm/wire/sample_code.h"

#include "group_assembly.h"
#include "router.h"
#include "table_cuts.h"

namespace dlrm {
namespace {

class ExactRouter final : public Router {
 public:
  ExactRouter(Context& context, const EmbeddingLayout& layout, int capacity, int threads,
              RowPlacement* placement)
      : Router(context, layout, capacity, threads, placement),
        tables_(cuts_of_tables(layout)),
        headers_(static_cast<size_t>(layout.groups)),
        spans_(headers_.size()),
        work_(layout.features.size()),
        assembly_(layout, rank(), id_bytes_) {
    std::vector<char> returned;  // by group
    for (const OwnerLayout& owner : layout.owners) {
      for (const RoutedGroup& group : owner.groups) returned.push_back(group.skips_empty_bags);
    }
    for (size_t f = 0; f < work_.size(); ++f) list_targets(f, returned);
  }

 private:
  /// A slice that may receive ids of a feature, and the position of the next id.
  struct TargetWork {
    size_t group;   ///< over all owners
    bool returned;  ///< only non-empty bags are returned
    int32_t count = 0;
    char* ids = nullptr;         ///< in the message
    int32_t* samples = nullptr;  ///< in FeatureWork::samples
  };
  /// Working memory for bucketing one feature.
  struct FeatureWork {
    std::vector<int64_t> piece_counts;
    std::vector<int32_t> pieces;  ///< by id
    std::vector<TargetWork> targets;
    std::vector<int32_t> samples;   ///< of ids, by target; of targets without all rows
    int64_t returned = 0;           ///< targets that return only non-empty bags
    int64_t returned_of_piece = 0;  ///< the most of them that hold the same row
    size_t first_returned = 0;      ///< of the batch's returned bags
  };

  const TableCuts& cuts_for(size_t feature) const {
    return tables_[static_cast<size_t>(layout_.features[feature].table)];
  }
  View<const GroupHeader> headers_for(size_t q) const {
    const OwnerLayout& owner = layout_.owners[q];
    return {headers_.data() + owner.first_group, owner.groups.size()};
  }

  void list_targets(size_t feature, const std::vector<char>& returned) {
    const TableCuts& table = cuts_for(feature);
    FeatureWork& work = work_[feature];
    work.piece_counts.resize(static_cast<size_t>(table.pieces()));
    const auto first = layout_.first_feature[static_cast<size_t>(layout_.features[feature].table)];
    const size_t within = feature - static_cast<size_t>(first);
    for (const Target& target : table.targets) {
      const size_t group = static_cast<size_t>(target.first_group) + within;
      work.targets.push_back({group, returned[group] != 0});
      work.returned += returned[group];
    }
    for (size_t p = 0; p < work.piece_counts.size(); ++p) {
      int64_t here = 0;
      for (const int t : table.targets_of(p)) here += work.targets[static_cast<size_t>(t)].returned;
      work.returned_of_piece = std::max(work.returned_of_piece, here);
    }
  }

  void reserve(const LocalBags& bags, const std::vector<BagScan>& scans, Transfer& transfer,
               std::vector<IdDestination>& destinations) override {
    size_t returned = 0;
    for (size_t f = 0; f < work_.size(); ++f) {
      FeatureWork& work = work_[f];
      work.first_returned = returned;
      returned += static_cast<size_t>(
          std::min(scans[f].count * work.returned_of_piece, bags.local.size() * work.returned));
    }
    transfer.batch.requester.begin(layout_, bags, scans, RequesterSide::Keep::kReplicated, returned,
                                   threads_for(bags.ids.size()), destinations);
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
    for (size_t q = 0; q < layout_.owners.size(); ++q) {
      const OwnerLayout& owner = layout_.owners[q];
      begin_message(transfer.send.data() + transfer.layout.send_offsets[q], headers_for(q), b,
                    id_bytes_, {spans_.data() + owner.first_group, owner.groups.size()});
    }
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t f = 0; f < features; ++f) {
      fill(static_cast<size_t>(f), bags.ids.data(), bags.offsets.data() + f * b, b,
           transfer.batch.requester);
    }
  }

  void count(size_t feature, const int64_t* ids, const BagScan& scan) {
    const TableCuts& table = cuts_for(feature);
    FeatureWork& work = work_[feature];
    for (TargetWork& target : work.targets) target.count = 0;
    if (table.pieces() > 1) count_pieces(table, ids, scan.count, work);
    const GroupHeader all = whole_bags(scan);
    for (size_t t = 0; t < table.targets.size(); ++t) {
      const TargetWork& target = work.targets[t];
      headers_[target.group] =
          table.targets[t].all_rows ? all : GroupHeader{BagLengths::kCoded, 0, target.count};
    }
  }

  /// Finds the piece of each id, and counts the ids of each target.
  static void count_pieces(const TableCuts& table, const int64_t* ids, int64_t count,
                           FeatureWork& work) {
    std::vector<int64_t>& counts = work.piece_counts;
    std::fill(counts.begin(), counts.end(), 0);
    work.pieces.resize(std::max(work.pieces.size(), static_cast<size_t>(count)));
    for (int64_t k = 0; k < count; ++k) {
      const size_t piece = table.piece_of(ids[k]);
      work.pieces[static_cast<size_t>(k)] = static_cast<int32_t>(piece);
      ++counts[piece];
    }
    for (size_t p = 0; p < counts.size(); ++p) {
      if (counts[p] == 0) continue;
      for (const int t : table.targets_of(p)) {
        work.targets[static_cast<size_t>(t)].count += static_cast<int32_t>(counts[p]);
      }
    }
  }

  /// Writes a feature's ids to the messages, and finds the bags that owners will return.
  void fill(size_t feature, const int64_t* ids, const int64_t* offsets, int64_t samples,
            RequesterSide& requester) {
    const TableCuts& table = cuts_for(feature);
    FeatureWork& work = work_[feature];
    size_t coded = 0;
    for (const TargetWork& target : work.targets) coded += static_cast<size_t>(target.count);
    if (work.samples.size() < coded) work.samples.resize(coded);
    int32_t* next = work.samples.data();
    for (size_t t = 0; t < table.targets.size(); ++t) {
      TargetWork& target = work.targets[t];
      if (table.targets[t].all_rows) {
        write_bags(spans_[target.group], id_bytes_, ids, offsets, samples);
      } else if (target.count > 0) {
        target.ids = spans_[target.group].ids;
        target.samples = next;
        next += target.count;
      }
    }
    if (table.pieces() == 1) return;
    id_bytes_ == 8 ? bucket<int64_t>(table, work, ids, offsets, samples)
                   : bucket<int32_t>(table, work, ids, offsets, samples);
    size_t first = work.first_returned;
    for (const TargetWork& target : work.targets) {
      if (target.count == 0) continue;
      const View<const int32_t> of_ids(target.samples - target.count,
                                       static_cast<size_t>(target.count));
      write_samples(of_ids, samples, spans_[target.group].code);
      if (!target.returned) continue;
      requester.add_returned(target.group, feature, first, of_ids);
      first += static_cast<size_t>(std::min<int64_t>(target.count, samples));
    }
  }

  /// Stable: each target gets its ids in the order of samples and positions.
  template <class Id>
  static void bucket(const TableCuts& table, FeatureWork& work, const int64_t* ids,
                     const int64_t* offsets, int64_t samples) {
    const int32_t* piece = work.pieces.data();
    for (int64_t i = 0; i < samples; ++i) {
      for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k, ++piece) {
        for (const int t : table.targets_of(static_cast<size_t>(*piece))) {
          TargetWork& target = work.targets[static_cast<size_t>(t)];
          *reinterpret_cast<Id*>(target.ids) =
              static_cast<Id>(ids[k] - table.targets[static_cast<size_t>(t)].first_row);
          target.ids += sizeof(Id);
          *target.samples++ = static_cast<int32_t>(i);
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
    messages_.clear();
    for (int p = 0; p < world(); ++p) {
      const auto source = static_cast<size_t>(p);
      messages_.push_back({{transfer.receive.data() + transfer.layout.receive_offsets[source],
                            static_cast<size_t>(transfer.layout.receive_bytes[source])},
                           samples_of(transfer, p)});
    }
    OwnerSide& owner = transfer.batch.owner;
    const size_t ids = assembly_.begin(messages_, owner);
    assembly_.finish(threads_for(ids), owner);
  }

  const std::vector<TableCuts> tables_;
  std::vector<GroupHeader> headers_;  ///< owner-major, then group
  std::vector<GroupSpan> spans_;      ///< owner-major, then group
  std::vector<FeatureWork> work_;
  GroupAssembly assembly_;
  std::vector<GroupAssembly::Message> messages_;  ///< by source
};

}  // namespace

std::unique_ptr<Router> make_exact_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement) {
  return std::make_unique<ExactRouter>(context, layout, capacity, threads, placement);
}

}  // namespace dlrm
