#include "router.h"

#include "dlrm/core/error.h"

#include "embedding/pooling/row_orders.h"

namespace dlrm {

int64_t offsets_of(const std::vector<int64_t>& bytes, std::vector<int64_t>& offsets) {
  offsets.resize(bytes.size());
  int64_t total = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    offsets[i] = total;
    total += bytes[i];
  }
  return total;
}

Router::Router(Context& context, const EmbeddingLayout& layout, int capacity, int threads,
               RowPlacement* placement, Communicator* devices)
    : layout_(layout),
      id_bytes_(layout.id_bytes),
      keeps_content_(placement == nullptr),  // a cache puts slots in the place of ids
      sizes_comm_(context.comm.duplicate()),
      messages_comm_(devices ? devices->duplicate() : context.comm.duplicate()),
      threads_(threads),
      on_devices_(devices != nullptr),
      stream_(context.stream),
      copies_(context.device.make_stream()),
      kept_ids_(layout.features.size()) {
  const auto ranks = static_cast<size_t>(world());
  const std::vector<int64_t> word(ranks, sizeof(int64_t));
  if (placement) placement_.emplace(context.comm, layout, *placement);
  for (int i = 0; i < capacity; ++i) {
    transfers_.add_place(context.device);
    Transfer& transfer = transfers_[i];
    if (placement || layout.orders_rows()) {
      transfer.batch.owner.order_groups(orders_of_groups(layout.owner(rank())));
    }
    transfer.send_sizes.assign(ranks, 0);
    transfer.receive_sizes.assign(ranks, 0);
    transfer.sizes_layout = ExchangeLayout::packed(word, word);
  }
}

Router::~Router() {
  if (placement_) placement_->stop();
  settle(*copies_);
}

/// Room for the ids of bags of varying length. Where lengths are equal they tell the number of ids.
void Router::find_capacities(int64_t samples) {
  kept_ids_.begin(samples);
  for (size_t f = 0; f < scans_.size(); ++f) {
    if (scans_[f].length < 0) scans_[f].capacity = kept_ids_.of(f, scans_[f].count);
  }
}

void Router::route(const LocalBags& bags, PackedIds* packed) {
  DLRM_CHECK(!full(), "{} batches are in flight already", in_flight());
  for (int i = 0; on_devices_ && i < in_flight(); ++i) finish_sizes(transfers_[i]);
  packed_ = packed;
  Transfer& transfer = transfers_[in_flight()];
  if (keeps_content_ && bags.content != 0 && transfer.content == bags.content) {
    transfer.batch.begin(bags);  // its ids are there
  } else {
    write(bags, transfer);
  }
  transfer.pending = start_sizes(transfer);
  transfer.stage = Stage::kSizes;
  transfers_.push();
  if (placement_) placement_->announce();
  poll();
}

void Router::write(const LocalBags& bags, Transfer& transfer) {
  const int threads = threads_for(bags.ids.size());
  if (packed_ && packed_->holds(bags)) {
    scans_ = packed_->scans;
  } else {
    scan_offsets(layout_, bags, threads, scans_);
  }
  find_capacities(bags.global_size);
  transfer.content = 0;  // until all of it is written
  transfer.batch.begin(bags);
  destinations_.assign(layout_.features.size(), {});
  reserve(bags, scans_, transfer, destinations_);
  check_and_copy_ids(layout_, bags, scans_, threads, destinations_);
  encode(bags, scans_, transfer);
  // A local router's ids are the requester's. With cached rows they become slots first. Then
  // arrive() sends them.
  if (!placement_) transfer.batch.requester.staging().send(*copies_);
  transfer.content = bags.content;
}

void Router::poll() {
  bool agrees = true, assembles = true;
  for (int i = 0; i < in_flight(); ++i) {
    Transfer& transfer = transfers_[i];
    if (transfer.stage == Stage::kSizes && transfer.pending.poll() && !on_devices_) {
      begin_messages(transfer);
    }
    // On every rank, later batches' messages start after those of this batch.
    if (transfer.stage == Stage::kSizes) return;
    if (transfer.stage == Stage::kMessages && assembles && transfer.pending.poll()) {
      finish_messages(transfer);
    }
    assembles &= transfer.stage != Stage::kMessages;  // batches are assembled in order
    if (transfer.stage == Stage::kPlacing && agrees && placement_->placed(transfer.placed)) {
      begin_agreeing(transfer);
    }
    // On every rank, later batches' agreements start after that of this batch. Otherwise a batch
    // that is placed during this loop could overtake an earlier one.
    agrees &= transfer.stage != Stage::kPlacing;
    if (transfer.stage == Stage::kAgreeing && transfer.pending.poll()) arrive(transfer);
  }
}

RoutedBatch& Router::await_oldest() {
  DLRM_CHECK(in_flight() > 0, "no batch was routed");
  Transfer& transfer = transfers_[0];
  finish(transfer);
  transfer.batch.await(stream_);
  if (on_devices_) transfer.pending.wait(stream_);
  return transfer.batch;
}

void Router::await_rows() {
  if (!placement_) return;
  if (placement_->in_first_window()) {
    for (int i = 0; i < in_flight(); ++i) finish_exchange(transfers_[i]);
    // No exchange of sizes is under way on any rank.
    placement_->end_first_window(*sizes_comm_);
  }
  placement_->await(transfers_[0].placed);
}

void Router::pop(bool updated) {
  DLRM_CHECK(in_flight() > 0 && transfers_[0].stage == Stage::kArrived);
  if (placement_) placement_->release(updated);
  transfers_[0].batch.release(stream_);
  transfers_.pop();
}

void Router::finish_sizes(Transfer& transfer) {
  if (transfer.stage != Stage::kSizes) return;
  transfer.pending.wait();
  begin_messages(transfer);
}

void Router::finish_exchange(Transfer& transfer) {
  finish_sizes(transfer);
  if (transfer.stage == Stage::kMessages) {
    transfer.pending.wait();
    finish_messages(transfer);
  }
}

void Router::finish(Transfer& transfer) {
  finish_exchange(transfer);
  if (transfer.stage == Stage::kPlacing) {
    placement_->await_placed(transfer.placed);
    begin_agreeing(transfer);
  }
  if (transfer.stage == Stage::kAgreeing) {
    transfer.pending.wait();
    arrive(transfer);
  }
}

void Router::begin_messages(Transfer& transfer) {
  transfer.pending = start_messages(transfer);
  transfer.stage = Stage::kMessages;
  // The host knows the sizes. Only the device waits for the messages.
  if (on_devices_) finish_messages(transfer);
}

void Router::finish_messages(Transfer& transfer) {
  assemble(transfer);
  OwnerSide& owner = transfer.batch.owner;
  list_orders(layout_, rank(), rows_, owner);
  if (!placement_) return arrive(transfer);
  placement_->place(owner, transfer.placed);
  transfer.stage = Stage::kPlacing;
}

void Router::begin_agreeing(Transfer& transfer) {
  transfer.pending = placement_->start_agreeing(transfer.placed);
  transfer.stage = Stage::kAgreeing;
}

void Router::arrive(Transfer& transfer) {
  if (placement_) {
    placement_->finish_agreeing(transfer.placed);
    transfer.batch.requester.staging().send(*copies_);
  }
  if (!on_devices_) transfer.batch.owner.staging().send(*copies_);
  transfer.stage = Stage::kArrived;
}

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
