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

Router::Router(Context& context, const EmbeddingLayout& layout, int slots, int threads)
    : layout_(layout),
      rank_(context.comm.rank()),
      world_(context.comm.size()),
      threads_(threads),
      id_bytes_(id_bytes_of(layout)),
      sizes_comm_(context.comm.duplicate()),
      messages_comm_(context.comm.duplicate()),
      stream_(context.stream),
      copies_(context.device.make_stream()) {
  for (int i = 0; i < slots; ++i) {
    Transfer& transfer = slots_.emplace_back(context.device);
    transfer.send_sizes.assign(static_cast<size_t>(world_), 0);
    transfer.receive_sizes.assign(static_cast<size_t>(world_), 0);
    const std::vector<int64_t> word(static_cast<size_t>(world_), sizeof(int64_t));
    transfer.sizes_layout = ExchangeLayout::packed(word, word);
  }
}

Router::~Router() { settle(*copies_); }

void Router::start(const LocalBags& bags) {
  DLRM_CHECK(!full(), "{} batches are in flight already", count_);
  scan_offsets(layout_, bags, threads_for(bags.ids.size()), scans_);
  Transfer& transfer = slot(count_);
  encode(bags, scans_, transfer);
  transfer.batch.send_local(*copies_);
  transfer.pending = start_sizes(transfer);
  transfer.stage = Stage::kSizes;
  ++count_;
  poll();
}

void Router::poll() {
  for (int i = 0; i < count_; ++i) {
    Transfer& transfer = slot(i);
    if (transfer.stage == Stage::kSizes && transfer.pending.poll()) begin_messages(transfer);
    // Later batches' messages start after this one's: one order on every rank.
    if (transfer.stage == Stage::kSizes) return;
    if (transfer.stage == Stage::kMessages && transfer.pending.poll()) arrive(transfer);
  }
}

RoutedBatch& Router::oldest() {
  DLRM_CHECK(count_ > 0, "no batch was routed");
  Transfer& transfer = slot(0);
  if (transfer.stage == Stage::kSizes) {
    transfer.pending.wait();
    begin_messages(transfer);
  }
  if (transfer.stage == Stage::kMessages) {
    transfer.pending.wait();
    arrive(transfer);
  }
  transfer.batch.arrive(stream_);
  return transfer.batch;
}

void Router::pop() {
  DLRM_CHECK(count_ > 0 && slot(0).stage == Stage::kArrived);
  slot(0).batch.release(stream_);
  first_ = (first_ + 1) % static_cast<int>(slots_.size());
  --count_;
}

void Router::begin_messages(Transfer& transfer) {
  transfer.pending = start_messages(transfer);
  transfer.stage = Stage::kMessages;
}

void Router::arrive(Transfer& transfer) {
  assemble(transfer);
  transfer.batch.send_owned(*copies_);
  transfer.stage = Stage::kArrived;
}

int64_t Router::samples_of(const Transfer& transfer, int source) const {
  return part_of(transfer.batch.global_size, source, world_).size();
}

int64_t Router::offsets_of(const std::vector<int64_t>& bytes, std::vector<int64_t>& offsets) {
  offsets.resize(bytes.size());
  int64_t total = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    offsets[i] = total;
    total += bytes[i];
  }
  return total;
}

}  // namespace dlrm
