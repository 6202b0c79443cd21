#include <algorithm>

#include "dlrm/wire/message_bytes.h"

#include "router.h"

namespace dlrm {
namespace {

class FixedRouter final : public Router {
 public:
  FixedRouter(Context& context, const EmbeddingLayout& layout, int capacity, int threads,
              RowPlacement* placement)
      : Router(context, layout, capacity, threads, placement) {
    place_in_message_.assign(layout.features.size(), -1);
    for (size_t f = 0; f < layout.features.size(); ++f) {
      if (layout.features[f].replicated) continue;
      place_in_message_[f] = static_cast<int64_t>(sent_.size());
      sent_.push_back(f);
    }
    headers_.resize(sent_.size());
    spans_.resize(sent_.size());
    one_word_.assign(static_cast<size_t>(world()), sizeof(int64_t));
    offsets_of(one_word_, word_offsets_);
  }

 private:
  void reserve(const LocalBags& bags, const std::vector<BagScan>& scans, Transfer& transfer,
               std::vector<IdDestination>& destinations) override {
    transfer.batch.requester.begin(layout_, bags, scans, RequesterSide::Keep::kReplicated,
                                   /*most_returned=*/0, threads_for(bags.ids.size()), destinations);
    for (size_t i = 0; i < sent_.size(); ++i) {
      const BagScan& scan = scans[sent_[i]];
      headers_[i] = whole_bags(scan);
    }
    transfer.send_sizes[0] = message_bytes(headers_, bags.local.size(), id_bytes_);
    grow(transfer.send, transfer.send_sizes[0]);
    begin_message(transfer.send.data(), headers_, bags.local.size(), id_bytes_, spans_);
    for (size_t i = 0; i < sent_.size(); ++i) destinations[sent_[i]] = {spans_[i].ids, id_bytes_};
  }

  /// Ids were copied into the message when they were checked.
  void encode(const LocalBags& bags, const std::vector<BagScan>&, Transfer& transfer) override {
    const int64_t b = bags.local.size();
    const int threads = threads_for(bags.ids.size());
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < sent_.size(); ++i) {
      const auto f = static_cast<int64_t>(sent_[i]);
      write_lengths(spans_[i], bags.offsets.data() + f * b, b);
    }
  }

  Pending start_sizes(Transfer& transfer) override {
    bytes_sent_ += (world() - 1) * kSizeBytes;
    return sizes_comm_->start_allgatherv(transfer.send_sizes.data(), transfer.receive_sizes.data(),
                                         one_word_, word_offsets_);
  }

  Pending start_messages(Transfer& transfer) override {
    std::vector<int64_t>& offsets = transfer.layout.receive_offsets;
    const int64_t bytes = offsets_of(transfer.receive_sizes, offsets);
    bytes_sent_ += (world() - 1) * transfer.send_sizes[0];
    grow(transfer.receive, bytes);
    return messages_comm_->start_allgatherv(transfer.send.data(), transfer.receive.data(),
                                            transfer.receive_sizes, offsets);
  }

  void assemble(Transfer& transfer) override {
    received_.clear();
    for (int p = 0; p < world(); ++p) {
      const auto source = static_cast<size_t>(p);
      char* message = transfer.receive.data() + transfer.layout.receive_offsets[source];
      open_message({message, static_cast<size_t>(transfer.receive_sizes[source])},
                   static_cast<int64_t>(sent_.size()), samples_of(transfer, p), id_bytes_,
                   received_);
    }
    const bool coded = std::any_of(received_.begin(), received_.end(), [](const GroupSpan& of) {
      return of.header.lengths == BagLengths::kCoded;
    });
    if (coded || received_.size() != sent_.size() * static_cast<size_t>(world())) {
      throw_damaged_message();
    }
    bucket(transfer);
  }

  void bucket(Transfer& transfer) {
    const auto groups = static_cast<int64_t>(layout_.owner(rank()).groups.size());
    const int64_t bags = transfer.batch.global_size;
    sizes_.assign(static_cast<size_t>(groups), {});
    const int threads = threads_for(ids_received());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t g = 0; g < groups; ++g) {
      OwnerSide::GroupSize& size = sizes_[static_cast<size_t>(g)];
      for (int p = 0; p < world(); ++p) {
        size.ids += slice_of(g).all_rows ? span(p, g).header.count
                                         : count_within(span(p, g), id_bytes_, slice_of(g).rows);
      }
      size.capacity = size.ids;
      size.bags = bags;
    }
    OwnerSide& owner = transfer.batch.owner;
    owner.reserve_groups(sizes_, /*narrow=*/false, buffers_);
    bool sound = true;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(&& : sound)
    for (int64_t g = 0; g < groups; ++g) {
      const OwnerSide::GroupBuffer& buffer = buffers_[static_cast<size_t>(g)];
      auto* const ids = static_cast<int64_t*>(buffer.ids);
      auto* const offsets = static_cast<int64_t*>(buffer.offsets);
      BagCursor<int64_t> cursor{ids, offsets};
      *offsets = 0;
      for (int p = 0; p < world(); ++p) {
        const int64_t samples = samples_of(transfer, p);
        sound = (slice_of(g).all_rows ? read_bags(span(p, g), id_bytes_, samples, cursor)
                                      : read_bags_within(span(p, g), id_bytes_, samples,
                                                         slice_of(g).rows, cursor)) &&
                sound;
      }
      owner.set_piece(static_cast<size_t>(g), OwnerSide::kEveryRank, ids, offsets, bags,
                      sizes_[static_cast<size_t>(g)].capacity);
    }
    if (!sound) throw_damaged_message();
  }

  size_t ids_received() const {
    size_t ids = 0;
    for (const GroupSpan& span : received_) ids += static_cast<size_t>(span.header.count);
    return ids;
  }
  const RoutedGroup& group(int64_t g) const {
    return layout_.owner(rank()).groups[static_cast<size_t>(g)];
  }
  const Slice& slice_of(int64_t g) const {
    return layout_.owner(rank()).slices[static_cast<size_t>(group(g).slice)];
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
  std::vector<int64_t> one_word_, word_offsets_;
  std::vector<OwnerSide::GroupSize> sizes_;
  std::vector<OwnerSide::GroupBuffer> buffers_;
};

}  // namespace

std::unique_ptr<Router> make_fixed_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement) {
  return std::make_unique<FixedRouter>(context, layout, capacity, threads, placement);
}

}  // namespace dlrm
