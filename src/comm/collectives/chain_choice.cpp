#include "chain_choice.h"

#include <algorithm>

namespace dlrm::comm {
namespace {

// What a link carries in the latency of a message: about 30 us at 10 Gbit/s, 3 us at 100 Gbit/s.
constexpr double kLatencyBytes = 32 << 10;

constexpr int64_t kLeastSegmentBytes = 128 << 10;  // of one rank

/// Time of a node's link, as bytes.
double chain_cost(const NodeLayout& nodes, int64_t bytes) {
  const double segments = chain_segments(nodes, bytes);
  const double rounds = 2.0 * (nodes.nodes() - 1) + segments - 1;
  // An inner node sends a segment in each direction.
  return rounds * (kLatencyBytes + 2.0 * static_cast<double>(bytes) / segments);
}

/// Each rank collects its part from every rank, and the sums are gathered by nodes.
double parts_cost(const NodeLayout& nodes, int64_t bytes) {
  const double foreign = static_cast<double>(nodes.nodes() - 1) / nodes.nodes();
  return 2 * kLatencyBytes + (nodes.largest() + 1) * foreign * static_cast<double>(bytes);
}

}  // namespace

bool chain_pays(const NodeLayout& nodes, int64_t bytes) {
  if (nodes.nodes() == 1 || nodes.largest() == 1 || !nodes.is_consecutive()) return false;
  return nodes.nodes() == 2 || chain_cost(nodes, bytes) < parts_cost(nodes, bytes);
}

int chain_segments(const NodeLayout& nodes, int64_t bytes) {
  const int64_t of_one_rank = bytes / nodes.smallest();
  return static_cast<int>(std::clamp<int64_t>(of_one_rank / kLeastSegmentBytes, 1, kChainSegments));
}

}  // namespace dlrm::comm
