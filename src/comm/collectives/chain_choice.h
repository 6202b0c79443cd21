#pragma once
#include <cstdint>

#include "comm/world/node_layout.h"

namespace dlrm::comm {

/// Largest number of segments of an allreduce along the chain of nodes.
inline constexpr int kChainSegments = 8;

/// True if an allreduce of `bytes` bytes runs along the chain of nodes (ChainAllreduce). It is
/// possible if the ranks of each node follow one another. Along the chain of two nodes each sends
/// the least possible bytes. Of more nodes, the inner ones send up to twice the vector, and each
/// node adds two latencies; the chain is taken if it is still expected to be faster than parts that
/// every rank collects from all ranks.
bool chain_pays(const NodeLayout& nodes, int64_t bytes);

/// Segments of a chain's allreduce of `bytes` bytes.
int chain_segments(const NodeLayout& nodes, int64_t bytes);

}  // namespace dlrm::comm
