#include "dlrm/comm/communicator.h"

#include <mutex>
#include <numeric>
#include <utility>

#include "comm/calls/call_log.h"
#include "comm/calls/progress_engine.h"
#include "comm/world/node_layout.h"

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

}  // namespace dlrm
