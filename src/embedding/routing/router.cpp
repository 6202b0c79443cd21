#include "router.h"

#include <algorithm>
#include <numeric>

#include "dlrm/core/error.h"
#include "dlrm/wire/message_bytes.h"

namespace dlrm {

int64_t id_bytes_of(const EmbeddingLayout& layout) {
  int64_t largest = 0;
  for (const FeaturePlace& place : layout.features) {
    if (!place.replicated) largest = std::max(largest, place.rows);
  }
  return wire_id_bytes(largest);
}

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
      id_bytes_(id_bytes_of(layout)),
      keeps_content_(placement == nullptr),  // a cache puts slots in the place of ids
      sizes_comm_(context.comm.duplicate()),
      messages_comm_(devices ? devices->duplicate() : context.comm.duplicate()),
      threads_(threads),
      on_devices_(devices != nullptr),
      placement_(placement),
      fit_comm_(placement ? context.comm.duplicate() : nullptr),
      stream_(context.stream),
      copies_(context.device.make_stream()),
      kept_ids_(layout.features.size()) {
  const auto ranks = static_cast<size_t>(world());
  const std::vector<int64_t> word(ranks, sizeof(int64_t));
  need_sizes_.assign(ranks, sizeof(FastNeed));
  offsets_of(need_sizes_, need_offsets_);
  for (int i = 0; i < capacity; ++i) {
    transfers_.add_place(context.device);
    Transfer& transfer = transfers_[i];
    if (placement_ || layout.orders_rows()) {
      transfer.batch.owner.order_groups(orders_of_groups());
    }
    transfer.send_sizes.assign(ranks, 0);
    transfer.receive_sizes.assign(ranks, 0);
    transfer.needed_by_rank.assign(ranks, {});
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
  const bool kept = keeps_content_ && bags.content != 0 && transfer.content == bags.content;
  kept ? transfer.batch.begin(bags) : write(bags, transfer);
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
  transfer.content = 0;
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
    if (transfer.stage == Stage::kPlacing && agrees && placement_->placed(transfer.placed_as)) {
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
  if (first_window_) {
    check_first_window();
    first_window_ = false;
  }
  const FastNeed& needed = transfers_[0].fast_needed;
  if (needed.bytes > 0) throw rows_do_not_fit(ExitCode::kFailure, needed);
  placement_->await();
}

/// Throws before the first step if one of the batches that are known by then does not fit.
void Router::check_first_window() {
  for (int i = 0; i < in_flight(); ++i) finish_exchange(transfers_[i]);
  // No exchange of sizes is under way on any rank.
  std::vector<FastNeed> by_rank(static_cast<size_t>(world()));
  sizes_comm_->start_allgatherv(&first_window_needs_, by_rank.data(), need_sizes_, need_offsets_)
      .wait();
  const FastNeed needed = *std::max_element(by_rank.begin(), by_rank.end());
  if (needed.bytes > 0) throw rows_do_not_fit(ExitCode::kUsage, needed);
}

RowsDoNotFit Router::rows_do_not_fit(ExitCode code, const FastNeed& needed) const {
  return {code, fmt::format("{}: too small for the rows of a batch; {}KiB would do",
                            key_of(needed, layout_.table_names), (needed.bytes + 1023) / 1024)};
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
    placement_->await_placed(transfer.placed_as);
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
  list_orders(transfer.batch.owner);
  placement_ ? begin_placing(transfer) : arrive(transfer);
}

/// The ordered slices are numbered in their order.
std::vector<int> Router::orders_of_groups() const {
  const OwnerLayout& mine = layout_.owner(rank());
  std::vector<int> order_of_group;
  int orders = 0, last = -1;
  for (const RoutedGroup& group : mine.groups) {
    const bool ordered = mine.slices[static_cast<size_t>(group.slice)].ordered;
    if (ordered && group.slice != last) ++orders;
    if (ordered) last = group.slice;
    order_of_group.push_back(ordered ? orders - 1 : -1);
  }
  return order_of_group;
}

void Router::list_orders(OwnerSide& owner) {
  size_t number = 0;
  for (const Slice& slice : layout_.owner(rank()).slices) {
    if (!slice.ordered) continue;
    OwnerSide::RowOrders& order = owner.orders[number++];
    order.first_ids.assign(slice.cuts.size() + 2, 0);
    rows_.clear();
    for (int g = 0; g < layout_.features_of(slice.table); ++g) {
      const OwnerSide::HostIds& of_group =
          owner.host_ids[static_cast<size_t>(slice.first_group + g)];
      each_id({-1, of_group.ids, of_group.count, of_group.narrow}, [&](int64_t row) {
        const auto cut = std::upper_bound(slice.cuts.begin(), slice.cuts.end(), row);
        ++order.first_ids[static_cast<size_t>(cut - slice.cuts.begin()) + 1];
        if (slice.cache < 0) rows_.push_back(row);
      });
    }
    std::partial_sum(order.first_ids.begin(), order.first_ids.end(), order.first_ids.begin());
    if (slice.cache >= 0) continue;
    std::sort(rows_.begin(), rows_.end());
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
    list_order(rows_, {-1, order.by_row, order.by_slot, slice.cuts, order.first_ids});
  }
}

void Router::begin_placing(Transfer& transfer) {
  const OwnerLayout& mine = layout_.owner(rank());
  std::vector<PlacedIds> ids;
  std::vector<PlacedOrder> orders;
  size_t number = 0;
  for (const Slice& slice : mine.slices) {
    if (!slice.ordered) continue;
    const OwnerSide::RowOrders& order = transfer.batch.owner.orders[number++];
    if (slice.cache < 0) continue;
    orders.push_back({slice.cache, order.by_row, order.by_slot, slice.cuts, order.first_ids});
  }
  for (size_t g = 0; g < transfer.batch.owner.host_ids.size(); ++g) {
    const int cache = mine.slices[static_cast<size_t>(mine.groups[g].slice)].cache;
    const OwnerSide::HostIds& of_group = transfer.batch.owner.host_ids[g];
    if (cache >= 0) ids.push_back({cache, of_group.ids, of_group.count, of_group.narrow});
  }
  if (first_window_ && !placement_->counts()) {
    first_window_needs_ = std::max(first_window_needs_, placement_->count_fast_needed(ids));
  }
  transfer.placed_as = placement_->place(std::move(ids), std::move(orders));
  transfer.stage = Stage::kPlacing;
}

void Router::begin_agreeing(Transfer& transfer) {
  transfer.fast_needed = placement_->fast_needed(transfer.placed_as);
  if (first_window_) {
    first_window_needs_ = std::max(first_window_needs_, transfer.fast_needed);
  }
  transfer.pending = fit_comm_->start_allgatherv(
      &transfer.fast_needed, transfer.needed_by_rank.data(), need_sizes_, need_offsets_);
  transfer.stage = Stage::kAgreeing;
}

void Router::arrive(Transfer& transfer) {
  if (placement_) {
    transfer.fast_needed =
        *std::max_element(transfer.needed_by_rank.begin(), transfer.needed_by_rank.end());
    transfer.batch.requester.staging().send(*copies_);
  }
  if (!on_devices_) transfer.batch.owner.staging().send(*copies_);
  transfer.stage = Stage::kArrived;
}

}  // namespace dlrm
