#include "router.h"

namespace dlrm {
namespace {

class LocalRouter final : public Router {
 public:
  using Router::Router;

 private:
  void reserve(const LocalBags& bags, const std::vector<BagScan>& scans, Transfer& transfer,
               std::vector<IdDestination>& destinations) override {
    transfer.batch.requester.begin(layout_, bags, scans, RequesterSide::Keep::kAll,
                                   /*most_returned=*/0, threads_for(bags.ids.size()), destinations);
    for (const RoutedGroup& group : layout_.owner(0).groups) {
      const auto f = static_cast<size_t>(group.feature);
      transfer.batch.owner.host_ids.push_back(
          {destinations[f].ids, scans[f].count, destinations[f].id_bytes == 4});
    }
  }
  /// The owner's groups are the local bags themselves.
  void encode(const LocalBags&, const std::vector<BagScan>&, Transfer& transfer) override {
    OwnerSide& owner = transfer.batch.owner;
    owner.pieces.clear();
    for (const RoutedGroup& group : layout_.owner(0).groups) {
      owner.pieces.push_back(transfer.batch.requester.kept[static_cast<size_t>(group.feature)]);
    }
    owner.set_whole_groups();
  }
  Pending start_sizes(Transfer&) override { return {}; }
  Pending start_messages(Transfer&) override { return {}; }
  void assemble(Transfer&) override {}
};

}  // namespace

std::unique_ptr<Router> make_local_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement) {
  return std::make_unique<LocalRouter>(context, layout, capacity, threads, placement);
}

}  // namespace dlrm
