#include "bf16_node_sum.h"

#include <algorithm>

#include "dlrm/device/cuda/runtime.h"

#include "kernels/elementwise.h"
#include "kernels/rank_sum.h"
#include "ring_exchange.h"

namespace dlrm::comm {
namespace {

constexpr int64_t kAlignment = 256;  // bytes

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t unsigned_of(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

bool Bf16NodeSum::fits(const NodeLayout& nodes) {
  return nodes.nodes() > 1 && nodes.smallest() > 1 && nodes.smallest() == nodes.largest();
}

Bf16NodeSum::Bf16NodeSum(NcclSession& session, NcclLane& lane, const Reduction& reduction)
    : session_(session),
      lane_(lane),
      reduction_(reduction),
      nodes_(session.nodes()),
      place_(static_cast<size_t>(nodes_.place())),
      node_(static_cast<size_t>(nodes_.node())) {
  for (int node = 0; node < nodes_.nodes(); ++node) {
    partners_.push_back(nodes_.ranks_of(node)[place_]);
  }
  const int64_t mine = part(place_).size();
  const int64_t wire_bytes = aligned(reduction.count * 2), sum_bytes = aligned(mine * 4);
  const int64_t received_bytes =
      std::max(mine * nodes_.largest() * 2, piece(node_).size() * nodes_.nodes() * 4);
  std::byte* memory = lane.scratch(unsigned_of(wire_bytes + sum_bytes + received_bytes));
  wire_ = reinterpret_cast<uint16_t*>(memory);
  node_sum_ = reinterpret_cast<float*>(memory + wire_bytes);
  received_ = reinterpret_cast<uint16_t*>(memory + wire_bytes + sum_bytes);
  sums_ = reinterpret_cast<float*>(received_);
}

Range Bf16NodeSum::part(size_t place) const {
  return part_of(reduction_.count, static_cast<int>(place), nodes_.largest());
}

Range Bf16NodeSum::piece(size_t node) const {
  return part_of(part(place_).size(), static_cast<int>(node), nodes_.nodes());
}

View<uint16_t> Bf16NodeSum::on_wire(Range range) const {
  return {wire_ + range.begin, unsigned_of(range.size())};
}

void Bf16NodeSum::add_within_node() {
  const View<const int> ranks = nodes_.own_ranks();
  const View<uint16_t> own = on_wire(part(place_));
  const auto received = [&](size_t q) {
    return View<uint16_t>(received_ + q * own.size(), own.size());
  };
  session_.device().copy(received(place_).data(), own.data(), own.size_bytes(), *lane_.stream);
  exchange_among(
      session_, lane_, reduction_.name, ranks, place_, [&](size_t q) { return on_wire(part(q)); },
      received);
  kernels::sum_of_ranks(received_, nodes_.largest(), part(place_).size(), node_sum_, lane_.native);
}

void Bf16NodeSum::add_among_nodes() {
  const View<const int> ranks(partners_);
  const auto part_begin = part(place_).begin;
  const auto of_node_sum = [&](size_t m) {
    return View<float>(node_sum_ + piece(m).begin, unsigned_of(piece(m).size()));
  };
  const auto rounded = [&](size_t m) {
    return on_wire({part_begin + piece(m).begin, part_begin + piece(m).end});
  };
  const View<float> own = of_node_sum(node_);
  const auto received = [&](size_t m) { return View<float>(sums_ + m * own.size(), own.size()); };
  session_.device().copy(received(node_).data(), own.data(), own.size_bytes(), *lane_.stream);
  exchange_among(session_, lane_, reduction_.name, ranks, node_, of_node_sum, received);
  kernels::sum_of_ranks(sums_, nodes_.nodes(), piece(node_).size(), rounded(node_).data(),
                        lane_.native);
  exchange_among(
      session_, lane_, reduction_.name, ranks, node_, [&](size_t) { return rounded(node_); },
      rounded);
}

void Bf16NodeSum::enqueue() {
  const Matrix values(const_cast<void*>(reduction_.data), DType::kFloat32, 1, reduction_.count);
  const Matrix rounded(wire_, DType::kBFloat16, 1, reduction_.count);
  kernels::convert(values, rounded, lane_.native);
  add_within_node();
  add_among_nodes();
  exchange_among(
      session_, lane_, reduction_.name, nodes_.own_ranks(), place_,
      [&](size_t) { return on_wire(part(place_)); }, [&](size_t q) { return on_wire(part(q)); });
  kernels::convert(rounded, Matrix(reduction_.out, DType::kFloat32, 1, reduction_.count),
                   lane_.native);
}

}  // namespace dlrm::comm
