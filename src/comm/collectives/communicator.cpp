#include "dlrm/comm/communicator.h"

#include <mutex>
#include <numeric>
#include <utility>

#include "comm/calls/call_log.h"
#include "comm/calls/progress_engine.h"
#include "comm/world/node_layout.h"
#include "exchanges.h"

namespace dlrm {
namespace {

std::vector<int64_t> offsets_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), int64_t{0});
  return offsets;
}

int64_t total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

ExchangeLayout ExchangeLayout::packed(std::vector<int64_t> send_bytes,
                                      std::vector<int64_t> receive_bytes) {
  ExchangeLayout layout;
  layout.send_offsets = offsets_of(send_bytes);
  layout.receive_offsets = offsets_of(receive_bytes);
  layout.send_bytes = std::move(send_bytes);
  layout.receive_bytes = std::move(receive_bytes);
  return layout;
}

int64_t ExchangeLayout::send_total() const { return total(send_bytes); }
int64_t ExchangeLayout::receive_total() const { return total(receive_bytes); }

Communicator::Communicator(std::shared_ptr<comm::ProgressEngine> engine)
    : engine_(std::move(engine)), call_log_(engine_->monitor().make_call_log()) {}

Communicator::~Communicator() { engine_->monitor().remove(*call_log_); }

uint64_t Communicator::reserve(const char* name, int64_t bytes, int exchanges) {
  call_log_->enter(name, bytes);
  engine_->monitor().count_progress();
  return std::exchange(next_sequence_, next_sequence_ + static_cast<uint64_t>(exchanges));
}

std::vector<int> Communicator::nodes() const {
  std::vector<int> nodes(static_cast<size_t>(size()), 0);
  const comm::NodeLayout* layout = node_layout();
  for (size_t q = 0; layout && q < nodes.size(); ++q) {
    nodes[q] = layout->node_of(static_cast<int>(q));
  }
  return nodes;
}

void Communicator::make_progress() { engine_->advance(); }

NodeTraffic Communicator::node_traffic() const {
  const std::lock_guard lock(engine_->mutex());
  return engine_->node_traffic();
}

Pending Communicator::start_alltoallv(const void* send, void* receive, const ExchangeLayout& layout,
                                      Stream* stream) {
  const auto ranks = static_cast<size_t>(size());
  DLRM_CHECK(layout.send_bytes.size() == ranks && layout.send_offsets.size() == ranks &&
                 layout.receive_bytes.size() == ranks && layout.receive_offsets.size() == ranks,
             "alltoallv among {} ranks", ranks);
  Exchange exchange = comm::empty_exchange(*this, "alltoallv");
  exchange.send = send;
  exchange.receive = receive;
  exchange.layout = layout;
  exchange.stream = stream;
  exchange.sequence = reserve(exchange.name, layout.send_total());
  return start_exchange(std::move(exchange));
}

void Communicator::alltoallv(const void* send, void* receive, const ExchangeLayout& layout) {
  start_alltoallv(send, receive, layout).wait();
}

Pending Communicator::start_allgatherv(const void* send, void* receive, View<const int64_t> bytes,
                                       View<const int64_t> offsets, Stream* stream) {
  const auto ranks = static_cast<size_t>(size());
  DLRM_CHECK(bytes.size() == ranks && offsets.size() == ranks, "allgatherv among {} ranks", ranks);
  Exchange exchange = comm::gather_exchange(
      *this, "allgatherv", send, receive, [&](int q) { return bytes[static_cast<size_t>(q)]; },
      [&](int q) { return offsets[static_cast<size_t>(q)]; });
  exchange.stream = stream;
  exchange.sequence = reserve(exchange.name, bytes[static_cast<size_t>(rank())], 2);
  return start_exchange(std::move(exchange));
}

std::vector<char> Communicator::allgather_bytes(const void* mine, int64_t mine_bytes,
                                                std::vector<int64_t>& bytes) {
  DLRM_CHECK(!on_device(), "host values are gathered by a host communicator");
  const auto ranks = static_cast<size_t>(size());
  bytes.assign(ranks, 0);
  bytes[static_cast<size_t>(rank())] = mine_bytes;
  std::vector<int64_t> eights(ranks, sizeof(int64_t)), offsets(ranks);
  for (size_t q = 0; q < ranks; ++q) offsets[q] = static_cast<int64_t>(q * sizeof(int64_t));
  start_allgatherv(&bytes[static_cast<size_t>(rank())], bytes.data(), eights, offsets).wait();

  int64_t total = 0;
  for (size_t q = 0; q < ranks; ++q) {
    offsets[q] = total;
    total += bytes[q];
  }
  std::vector<char> all(static_cast<size_t>(total));
  start_allgatherv(mine, all.data(), bytes, offsets).wait();
  return all;
}

Pending Communicator::start_broadcast(void* data, int64_t bytes, int root, Stream* stream) {
  const auto ranks = static_cast<size_t>(size());
  DLRM_CHECK(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
  Exchange exchange = comm::empty_exchange(*this, "broadcast");
  exchange.receive = data;
  exchange.send = data;
  if (rank() == root) exchange.layout.send_bytes.assign(ranks, bytes);
  exchange.layout.receive_bytes[static_cast<size_t>(root)] = bytes;
  exchange.stream = stream;
  exchange.is_gather = true;  // in which only the root has a block
  exchange.sequence = reserve(exchange.name, bytes, 2);
  return start_exchange(std::move(exchange));
}

void Communicator::broadcast(void* data, int64_t bytes, int root) {
  start_broadcast(data, bytes, root).wait();
}

Pending Communicator::start_barrier() {
  Exchange exchange = comm::empty_exchange(*this, "barrier");
  exchange.is_barrier = true;
  exchange.sequence = reserve(exchange.name, 0);
  return start_exchange(std::move(exchange));
}

void Communicator::barrier() { start_barrier().wait(); }

}  // namespace dlrm
