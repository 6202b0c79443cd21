#include "mpi_exchange.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "comm/collectives/collective_kind.h"
#include "comm/collectives/exchanges.h"

namespace dlrm::comm {
namespace {

int tag_of(const Exchange& exchange, int largest) {
  const uint64_t kind = kind_of(exchange.name) % 64;
  return static_cast<int>((exchange.sequence * 64 + kind) % static_cast<uint64_t>(largest));
}

}  // namespace

MpiExchange::MpiExchange(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, int rank,
                         int largest_tag, const NodeLayout* nodes, ExchangeTable* table,
                         Exchange exchange)
    : Call(std::move(engine)),
      rank_(rank),
      nodes_(nodes),
      table_(table),
      exchange_(std::move(exchange)),
      kind_(kind_of(exchange_.name)),
      messages_(comm, rank, nodes, tag_of(exchange_, largest_tag), exchange_.name) {}

MpiExchange::~MpiExchange() {
  {
    const std::lock_guard lock(engine().mutex());
    messages_.cancel();
  }
  // If other ranks still read, the descriptor and the copy are never reused.
  if (!descriptor_ || descriptor_->all_have_read()) {
    if (descriptor_) descriptor_->in_use = false;
    if (table_) table_->group()->pool().release(copy_);
  }
  engine().call_pool()->release(std::move(exchange_.layout));
}

void MpiExchange::start() {
  const std::lock_guard lock(engine().mutex());
  if (nodes_) count_node_traffic();
  for (int hop = 1; hop < ranks(); ++hop) {
    const int q = (rank_ + ranks() - hop) % ranks();
    if (!is_local(q)) {
      start_receive(q);
    } else if (is_transferred(expected(q))) {
      ++unread_;
    } else {
      table_->skip(q, exchange_.sequence, exchange_.name);
      expected(q) = kReceived;
    }
  }
  for (int hop = 1; hop < ranks(); ++hop) {
    const int q = (rank_ + hop) % ranks();
    if (!is_local(q)) start_send(q);
  }
  publish_local_blocks();
  copy_own_block(exchange_, rank_, engine());  // done while the other blocks are in flight
  engine().add(*this);
}

void MpiExchange::count_node_traffic() {
  NodeTraffic& traffic = engine().node_traffic();
  for (int q = 0; q < ranks(); ++q) {
    if (nodes_->node_of(q) == nodes_->node()) continue;
    traffic.sent += send_bytes(q);
    traffic.received += expected(q);
  }
}

MpiExchange::LocalBlocks MpiExchange::local_blocks() const {
  LocalBlocks blocks;
  blocks.begin = std::numeric_limits<int64_t>::max();
  for (int q = 0; q < ranks(); ++q) {
    if (q == rank_ || !is_local(q) || !is_transferred(send_bytes(q))) continue;
    ++blocks.readers;
    blocks.largest = std::max(blocks.largest, send_bytes(q));
    blocks.begin = std::min(blocks.begin, send_offset(q));
    blocks.end = std::max(blocks.end, send_offset(q) + send_bytes(q));
  }
  return blocks;
}

/// Small blocks lie inline in the descriptor. Others are read from the send buffer if it is shared
/// memory, or from a copy. Blocks too large to copy are sent as MPI messages.
void MpiExchange::publish_local_blocks() {
  const LocalBlocks blocks = local_blocks();
  if (blocks.readers == 0) return;
  ExchangeDescriptor& descriptor = table_->acquire(exchange_.sequence);
  descriptor.kind = kind_;
  const bool is_inline =
      blocks.largest == 0 || blocks.end - blocks.begin <= ExchangeTable::kInlineBytes;
  ArenaAddress address;
  if (!is_inline) {
    address = share(blocks);
  } else if (blocks.largest > 0) {
    std::memcpy(table_->inline_payload(descriptor), send_data() + blocks.begin,
                static_cast<size_t>(blocks.end - blocks.begin));
    address = table_->inline_address(descriptor);
  }
  for (int q = 0; q < ranks(); ++q) {
    if (!is_local(q)) continue;
    BlockRef& block = table_->block_for(descriptor, q);
    block = {q == rank_ ? 0 : send_bytes(q), {}};
    if (block.bytes == 0) continue;
    if (address.is_null()) {
      start_send(q);
    } else {
      block.address = address + static_cast<size_t>(send_offset(q) - blocks.begin);
    }
  }
  descriptor.publish(exchange_.sequence, blocks.readers);
  if (is_inline || address.is_null()) {
    descriptor.in_use = false;  // no rank reads the caller's memory
  } else {
    descriptor_ = &descriptor;
  }
}

/// Returns the shared address of the blocks or of their copy; null if they are too large to copy.
ArenaAddress MpiExchange::share(const LocalBlocks& blocks) {
  const char* from = send_data() + blocks.begin;
  const auto bytes = static_cast<size_t>(blocks.end - blocks.begin);
  const ArenaAddress address = table_->group()->arena().address_of(from, bytes);
  const bool too_large =
      blocks.largest > kMaxCopyBytes || blocks.end - blocks.begin > kMaxCopyBytes * blocks.readers;
  if (!address.is_null() || too_large) return address;
  copy_ = table_->group()->pool().acquire(bytes);
  if (!copy_.data) return {};
  engine().copy(copy_.data, from, blocks.end - blocks.begin);
  return table_->group()->arena().address_of(copy_.data, copy_.bytes);
}

bool MpiExchange::step() {
  const bool all_read = read_descriptors();
  if (messages_.poll() && all_read && (!descriptor_ || descriptor_->all_have_read())) return true;
  if (table_ && ++idle_steps_ % kStepsToCheck == 0) table_->group()->check_skipped();
  return false;
}

bool MpiExchange::read_descriptors() {
  for (int hop = 1; unread_ > 0 && hop < ranks(); ++hop) {
    const int q = (rank_ + ranks() - hop) % ranks();
    if (!is_local(q) || expected(q) == kReceived || !read_block_of(q)) continue;
    expected(q) = kReceived;
    --unread_;
  }
  return unread_ == 0;
}

/// Returns false if rank q has not published its block yet.
bool MpiExchange::read_block_of(int q) {
  ExchangeDescriptor* descriptor = table_->find(q, exchange_.sequence);
  if (!descriptor || descriptor->kind != kind_) return false;
  const BlockRef& block = table_->block_for_me(*descriptor);
  require_length(q, block.bytes);
  if (block.bytes > 0 && block.address.is_null()) {
    start_receive(q);
  } else if (block.bytes > 0) {
    engine().copy(receive_block(q), table_->at(q, block.address), block.bytes);
  }
  descriptor->finish_reading();
  return true;
}

void MpiExchange::require_length(int q, int64_t bytes) const {
  if (bytes == expected(q)) return;
  throw run_error("{} of rank {} expects {} bytes from rank {}, which sends {}", exchange_.name,
                  rank_, expected(q), q, bytes);
}

}  // namespace dlrm::comm
