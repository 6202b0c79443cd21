#include <algorithm>

#include "group_assembly.h"
#include "id_buckets.h"
#include "list_capacities.h"
#include "router.h"

namespace dlrm {
namespace {

class ExactRouter final : public Router {
 public:
  ExactRouter(Context& context, const EmbeddingLayout& layout, int capacity, int threads,
              RowPlacement* placement)
      : Router(context, layout, capacity, threads, placement),
        buckets_(layout),
        spans_(static_cast<size_t>(layout.groups)),
        ids_(spans_.size()),
        returned_(spans_.size()),
        capacities_(spans_.size()),
        assembly_(layout, rank(), id_bytes_) {}

  void keep_sizes() override {
    Router::keep_sizes();
    keeps_content_ = false;  // the owners' capacities follow each batch, so these must too
    ids_.start();
    returned_.start();
    assembly_.keep_sizes();
  }

 private:
  View<const GroupHeader> headers_for(size_t q) const {
    const OwnerLayout& owner = layout_.owners[q];
    return buckets_.headers().subspan(static_cast<size_t>(owner.first_group), owner.groups.size());
  }

  void reserve(const LocalBags& bags, const std::vector<BagScan>& scans, Transfer& transfer,
               std::vector<IdDestination>& destinations) override {
    transfer.batch.requester.begin(layout_, bags, scans, RequesterSide::Keep::kReplicated,
                                   returned_.started() ? buckets_.most_returned(bags.local.size())
                                                       : buckets_.most_returned(bags, scans),
                                   threads_for(bags.ids.size()), destinations);
  }

  void encode(const LocalBags& bags, const std::vector<BagScan>& scans,
              Transfer& transfer) override {
    const int64_t b = bags.local.size();
    const int threads = threads_for(bags.ids.size());
    buckets_.count(bags, scans, threads);
    for (size_t q = 0; q < layout_.owners.size(); ++q) {
      transfer.send_sizes[q] = message_bytes(headers_for(q), b, id_bytes_);
    }
    grow(transfer.send, offsets_of(transfer.send_sizes, transfer.layout.send_offsets));
    for (size_t q = 0; q < layout_.owners.size(); ++q) {
      const OwnerLayout& owner = layout_.owners[q];
      begin_message(transfer.send.data() + transfer.layout.send_offsets[q], headers_for(q), b,
                    id_bytes_, {spans_.data() + owner.first_group, owner.groups.size()});
    }
    find_returned_capacities(bags);
    transfer.batch.requester.place_returned(buckets_.returned(), capacities_);
    buckets_.fill(bags, spans_, id_bytes_, transfer.batch.requester, threads);
  }

  /// Gives the lists of returned bags the capacities that their owners give them.
  void find_returned_capacities(const LocalBags& bags) {
    ids_.begin(bags.global_size);
    returned_.begin(bags.global_size);
    size_t g = 0;
    for (const OwnerLayout& owner : layout_.owners) {
      for (const RoutedGroup& group : owner.groups) {
        const int64_t ids = ids_.of(g, buckets_.headers()[g].count);
        const int64_t most = group.skips_empty_bags ? std::min(ids, bags.local.size()) : 0;
        capacities_[g] = returned_.of(g, buckets_.returned()[g], most);
        ++g;
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

  IdBuckets buckets_;
  std::vector<GroupSpan> spans_;     ///< owner-major, then group
  ListCapacities ids_, returned_;    ///< likewise
  std::vector<int64_t> capacities_;  ///< of the batch's returned bags, likewise
  GroupAssembly assembly_;
  std::vector<GroupAssembly::Message> messages_;  ///< by source
};

}  // namespace

std::unique_ptr<Router> make_exact_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement) {
  return std::make_unique<ExactRouter>(context, layout, capacity, threads, placement);
}

}  // namespace dlrm
