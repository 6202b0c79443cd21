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
  stage_ = Stage::kCounts;
  const int64_t bytes = message_bytes(my_counts_.data());
  mine_.reserve(static_cast<size_t>(bytes));
  bytes_sent_ += (comm_->size() - 1) * (sizes_.bytes[0] + bytes);
}

void PairExchange::poll() {
  if (stage_ == Stage::kIdle || !pending_.poll()) return;
  if (stage_ == Stage::kCounts) start_messages();
}

void PairExchange::finish() {
  pending_.wait();
  if (stage_ == Stage::kCounts) start_messages();
  pending_.wait();
  stage_ = Stage::kIdle;
}

void PairExchange::start_messages() {
  int64_t total = 0;
  for (size_t p = 0; p < world(); ++p) {
    messages_.bytes[p] = message_bytes(counts_of(p));
    messages_.offsets[p] = total;
    total += messages_.bytes[p];
  }
  all_.reserve(static_cast<size_t>(total));
  pending_ = comm_->start_allgatherv(mine_.data(), all_.data(), messages_.bytes, messages_.offsets);
  stage_ = Stage::kMessages;
}

int64_t PairExchange::total_rows(const int64_t* counts) const {
  int64_t rows = 0;
  for (size_t t = 0; t < widths_.size(); ++t) rows += counts[t];
  return rows;
}

int64_t PairExchange::message_bytes(const int64_t* counts) const {
  int64_t elements = 0;
  for (size_t t = 0; t < widths_.size(); ++t) elements += counts[t] * widths_[t];
  return pairs_message_bytes(0, total_rows(counts), elements);
}

PairExchange::Pairs PairExchange::pairs_of(char* message, const int64_t* counts,
                                           size_t table) const {
  auto* rows = reinterpret_cast<int64_t*>(message);
  auto* gradients = reinterpret_cast<float*>(rows + total_rows(counts));
  for (size_t t = 0; t < table; ++t) {
    rows += counts[t];
    gradients += counts[t] * widths_[t];
  }
  return {rows, gradients, counts[table]};
}

}  // namespace dlrm
