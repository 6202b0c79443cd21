#include "pair_exchange.h"

#include "dlrm/wire/message_bytes.h"

namespace dlrm {

PairExchange::PairExchange(Context& context, std::vector<int64_t> widths)
    : widths_(std::move(widths)),
      comm_(context.comm.duplicate()),
      mine_(comm_->shared_memory(context.device), 0, "gradients of data-parallel tables"),
      all_(context.device, 0, "gradients of data-parallel tables") {
  DLRM_CHECK(context.device.host_visible_memory());
  const auto world = static_cast<size_t>(comm_->size());
  counts_.resize(world * widths_.size());
  places_.resize((1 + world) * (widths_.size() + 1));
  const auto bytes = static_cast<int64_t>(widths_.size() * sizeof(int64_t));
  sizes_.bytes.assign(world, bytes);
  for (size_t p = 0; p < world; ++p) sizes_.offsets.push_back(static_cast<int64_t>(p) * bytes);
  messages_.bytes.resize(world);
  messages_.offsets.resize(world);
}

void PairExchange::start(const std::vector<int64_t>& counts) {
  my_counts_ = counts;
  pending_ =
      comm_->start_allgatherv(my_counts_.data(), counts_.data(), sizes_.bytes, sizes_.offsets);
  counting_ = true;
  const int64_t bytes = place_message(0, my_counts_.data());
  mine_.reserve(static_cast<size_t>(bytes));
  bytes_sent_ += (comm_->size() - 1) * (sizes_.bytes[0] + bytes);
}

void PairExchange::poll() {
  if (pending_.poll() && counting_) start_messages();
}

void PairExchange::finish() {
  pending_.wait();
  if (counting_) start_messages();
  pending_.wait();
}

void PairExchange::start_messages() {
  int64_t total = 0;
  for (size_t p = 0; p < world(); ++p) {
    messages_.bytes[p] = place_message(p + 1, counts_of(p));
    messages_.offsets[p] = total;
    total += messages_.bytes[p];
  }
  all_.reserve(static_cast<size_t>(total));
  pending_ = comm_->start_allgatherv(mine_.data(), all_.data(), messages_.bytes, messages_.offsets);
  counting_ = false;
}

/// Sets the places of a message of so many rows of each table. Returns its bytes.
int64_t PairExchange::place_message(size_t message, const int64_t* counts) {
  Place* places = places_.data() + message * (widths_.size() + 1);
  Place at;
  for (size_t t = 0; t < widths_.size(); ++t) {
    places[t] = at;
    at.rows += counts[t];
    at.floats += counts[t] * widths_[t];
  }
  places[widths_.size()] = at;
  return pairs_message_bytes(0, at.rows, at.floats);
}

PairExchange::Pairs PairExchange::pairs_of(char* data, size_t message, size_t table) const {
  const Place* places = places_.data() + message * (widths_.size() + 1);
  auto* rows = reinterpret_cast<int64_t*>(data);
  auto* gradients = reinterpret_cast<float*>(rows + places[widths_.size()].rows);
  return {rows + places[table].rows, gradients + places[table].floats,
          places[table + 1].rows - places[table].rows};
}

}  // namespace dlrm
