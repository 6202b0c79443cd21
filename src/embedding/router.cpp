#include "router.h"

#include <algorithm>

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

Router::Router(Context& context, const EmbeddingLayout& layout, int capacity, int threads)
    : layout_(layout),
      id_bytes_(id_bytes_of(layout)),
      sizes_comm_(context.comm.duplicate()),
      messages_comm_(context.comm.duplicate()),
      threads_(threads),
      stream_(context.stream),
      copies_(context.device.make_stream()) {
  const auto ranks = static_cast<size_t>(world());
  const std::vector<int64_t> word(ranks, sizeof(int64_t));
  for (int i = 0; i < capacity; ++i) {
    transfers_.add_place(context.device);
    Transfer& transfer = transfers_[i];
    transfer.send_sizes.assign(ranks, 0);
    transfer.receive_sizes.assign(ranks, 0);
    transfer.sizes_layout = ExchangeLayout::packed(word, word);
  }
}

Router::~Router() { settle(*copies_); }

void Router::route(const LocalBags& bags) {
  DLRM_CHECK(!full(), "{} batches are in flight already", in_flight());
  const int threads = threads_for(bags.ids.size());
  scan_offsets(layout_, bags, threads, scans_);
  Transfer& transfer = transfers_[in_flight()];
  transfer.batch.begin(bags);
  destinations_.assign(layout_.features.size(), {});
  reserve(bags, scans_, transfer, destinations_);
  check_and_copy_ids(layout_, bags, scans_, threads, destinations_);
  encode(bags, scans_, transfer);
  transfer.batch.requester.staging().send(*copies_);
  transfer.pending = start_sizes(transfer);
  transfer.stage = Stage::kSizes;
  transfers_.push();
  poll();
}

void Router::poll() {
  for (int i = 0; i < in_flight(); ++i) {
    Transfer& transfer = transfers_[i];
    if (transfer.stage == Stage::kSizes && transfer.pending.poll()) begin_messages(transfer);
    // On every rank, later batches' messages start after those of this batch.
    if (transfer.stage == Stage::kSizes) return;
    if (transfer.stage == Stage::kMessages && transfer.pending.poll()) finish_messages(transfer);
  }
}

RoutedBatch& Router::await_oldest() {
  DLRM_CHECK(in_flight() > 0, "no batch was routed");
  Transfer& transfer = transfers_[0];
  if (transfer.stage == Stage::kSizes) {
    transfer.pending.wait();
    begin_messages(transfer);
  }
  if (transfer.stage == Stage::kMessages) {
    transfer.pending.wait();
    finish_messages(transfer);
  }
  transfer.batch.await(stream_);
  return transfer.batch;
}

void Router::pop() {
  DLRM_CHECK(in_flight() > 0 && transfers_[0].stage == Stage::kArrived);
  transfers_[0].batch.release(stream_);
  transfers_.pop();
}

void Router::begin_messages(Transfer& transfer) {
  transfer.pending = start_messages(transfer);
  transfer.stage = Stage::kMessages;
}

void Router::finish_messages(Transfer& transfer) {
  assemble(transfer);
  transfer.batch.owner.staging().send(*copies_);
  transfer.stage = Stage::kArrived;
}

}  // namespace dlrm
