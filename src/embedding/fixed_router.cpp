#include <algorithm>
#include <cstring>

#include "dlrm/wire/message_bytes.h"

#include "router.h"

namespace dlrm {
namespace {

class FixedRouter final : public Router {
 public:
  FixedRouter(Context& context, const EmbeddingLayout& layout, int slots, int threads)
      : Router(context, layout, slots, threads) {
    place_in_message_.assign(layout.features.size(), -1);
    for (size_t f = 0; f < layout.features.size(); ++f) {
      if (layout.features[f].replicated) continue;
      place_in_message_[f] = static_cast<int64_t>(sent_.size());
      sent_.push_back(f);
    }
    headers_.resize(sent_.size());
    one_word_.assign(static_cast<size_t>(world_), sizeof(int64_t));
    offsets_of(one_word_, word_offsets_);
  }

 private:
  void encode(const LocalBags& bags, const std::vector<BagScan>& scans,
              Transfer& transfer) override {
    const int64_t b = bags.local.size();
    transfer.batch.take_local(layout_, bags, scans);
    for (size_t i = 0; i < sent_.size(); ++i) {
      const BagScan& scan = scans[sent_[i]];
      headers_[i] = {scan.length, static_cast<int32_t>(scan.count)};
    }
    const int64_t bytes = message_bytes(headers_, b, id_bytes_);
    transfer.send_sizes[0] = bytes;
    grow(transfer.send, bytes);
    spans_.clear();
    locate_groups(transfer.send.data(), headers_, b, id_bytes_, spans_);
    const auto count = static_cast<int64_t>(sent_.size());
    copies_.assign(layout_.features.size(), nullptr);
    for (size_t i = 0; i < sent_.size(); ++i) copies_[sent_[i]] = spans_[i].ids;
    const int threads = threads_for(bags.ids.size());
    check_and_copy_ids(layout_, bags, scans, threads, copies_, id_bytes_);
    if (bytes == 0) return;
    std::memcpy(transfer.send.data(), headers_.data(), headers_.size() * sizeof(GroupHeader));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; ++i) {
      const auto f = static_cast<int64_t>(sent_[static_cast<size_t>(i)]);
      write_lengths(spans_[static_cast<size_t>(i)], bags.offsets.data() + f * b, b);
    }
  }

  Pending start_sizes(Transfer& transfer) override {
    bytes_sent_ += (world_ - 1) * kSizeBytes;
    return sizes_comm_->start_allgatherv(transfer.send_sizes.data(), transfer.receive_sizes.data(),
                                         one_word_, word_offsets_);
  }

  Pending start_messages(Transfer& transfer) override {
    std::vector<int64_t>& offsets = transfer.layout.receive_offsets;
    const int64_t bytes = offsets_of(transfer.receive_sizes, offsets);
    bytes_sent_ += (world_ - 1) * transfer.send_sizes[0];
    if (transfer.batch.on_device()) {
      transfer.message = transfer.batch.make_message_room(static_cast<size_t>(bytes));
    } else {
      grow(transfer.receive, bytes);
      transfer.message = transfer.receive.data();
    }
    return messages_comm_->start_allgatherv(transfer.send.data(), transfer.message,
                                            transfer.receive_sizes, offsets);
  }

  void assemble(Transfer& transfer) override {
    received_.clear();
    for (int p = 0; p < world_; ++p) {
      char* message = transfer.message + transfer.layout.receive_offsets[static_cast<size_t>(p)];
      locate_groups(message, headers_of(message, static_cast<int64_t>(sent_.size())),
                    samples_of(transfer, p), id_bytes_, received_);
    }
    transfer.batch.on_device() ? leave_to_device(transfer) : bucket(transfer);
  }

  /// Each group's ids are picked out there: how many they are, the host need not know.
  void leave_to_device(Transfer& transfer) {
    RoutedBatch& batch = transfer.batch;
    const auto groups = static_cast<int64_t>(layout_.owner(rank_).groups.size());
    const auto world = static_cast<size_t>(world_);
    batch.parts.clear();
    batch.part_sizes.clear();
    for (size_t i = 0; i < sent_.size(); ++i) {
      for (size_t p = 0; p < world; ++p) {
        const GroupSpan& of = received_[p * sent_.size() + i];
        IdPart part;
        part.bags = samples_of(transfer, static_cast<int>(p));
        part.narrow = id_bytes_ == 4;
        if (part.bags > 0) {
          part.ids = batch.on_device(of.ids);
          part.lengths = of.length < 0 ? batch.on_device(of.lengths) : nullptr;
          part.length = std::max(of.length, 0);
        }
        batch.parts.push_back(part);
        batch.part_sizes.push_back(part.bags > 0 ? of.count : 0);
      }
    }
    counts_.assign(static_cast<size_t>(groups), 0);
    for (int64_t g = 0; g < groups; ++g) {
      for (int p = 0; p < world_; ++p) counts_[static_cast<size_t>(g)] += span(p, g).count;
    }
    batch.make_filters(counts_);
    for (int64_t g = 0; g < groups; ++g) {
      IdFilter& filter = batch.filters[static_cast<size_t>(g)];
      const auto place =
          static_cast<size_t>(place_in_message_[static_cast<size_t>(group(g).feature)]);
      filter.parts = View<const IdPart>(batch.parts).subspan(place * world, world);
      filter.first_row = slice_of(g).rows.begin;
      filter.rows = slice_of(g).rows.size();
    }
  }

  void bucket(Transfer& transfer) {
    const auto groups = static_cast<int64_t>(layout_.owner(rank_).groups.size());
    counts_.assign(static_cast<size_t>(groups), 0);
    const int threads = threads_for(ids_received());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t g = 0; g < groups; ++g) {
      for (int p = 0; p < world_; ++p) {
        counts_[static_cast<size_t>(g)] +=
            slice_of(g).whole ? span(p, g).count
                              : count_within(span(p, g), id_bytes_, slice_of(g).rows);
      }
    }
    transfer.batch.make_room(counts_, 1, /*narrow=*/false, {}, rooms_);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t g = 0; g < groups; ++g) {
      const RoutedBatch::Room& room = rooms_[static_cast<size_t>(g)];
      auto* const ids = static_cast<int64_t*>(room.ids);
      auto* const offsets = static_cast<int64_t*>(room.offsets);
      BagCursor<int64_t> cursor{ids, offsets};
      *offsets = 0;
      for (int p = 0; p < world_; ++p) {
        const int64_t samples = samples_of(transfer, p);
        if (slice_of(g).whole) {
          read_bags(span(p, g), id_bytes_, samples, /*non_empty=*/false, cursor);
        } else {
          read_bags_within(span(p, g), id_bytes_, samples, slice_of(g).rows, cursor);
        }
      }
      transfer.batch.set_piece(static_cast<size_t>(g), ids, offsets, transfer.batch.global_size);
    }
  }

  size_t ids_received() const {
    size_t ids = 0;
    for (const GroupSpan& span : received_) ids += static_cast<size_t>(span.count);
    return ids;
  }
  const RoutedGroup& group(int64_t g) const {
    return layout_.owner(rank_).groups[static_cast<size_t>(g)];
  }
  const Slice& slice_of(int64_t g) const {
    return layout_.owner(rank_).slices[static_cast<size_t>(group(g).slice)];
  }
  const GroupSpan& span(int source, int64_t g) const {
    const int64_t place = place_in_message_[static_cast<size_t>(group(g).feature)];
    return received_[static_cast<size_t>(source) * sent_.size() + static_cast<size_t>(place)];
  }

  std::vector<size_t> sent_;               ///< the sharded features
  std::vector<int64_t> place_in_message_;  ///< by feature, -1 for replicated ones
  std::vector<GroupHeader> headers_;
  std::vector<GroupSpan> spans_;
  std::vector<GroupSpan> received_;  ///< source-major
  std::vector<char*> copies_;        ///< by feature: where its ids go
  std::vector<int64_t> one_word_, word_offsets_, counts_;
  std::vector<RoutedBatch::Room> rooms_;
};

}  // namespace

std::unique_ptr<Router> make_fixed_router(Context& context, const EmbeddingLayout& layout,
                                          int slots, int threads) {
  return std::make_unique<FixedRouter>(context, layout, slots, threads);
}

}  // namespace dlrm
