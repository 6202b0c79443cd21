#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// Runs `work` (no collective calls within) on every rank, then agrees: where it threw on any rank,
/// the error of the lowest such rank is thrown on all of them.
void agree(Communicator& comm, const std::function<void()>& work);

/// The same, `work` running on rank 0 alone.
void agree_on_root(Communicator& comm, const std::function<void()>& work);

/// Rank 0's text, on every rank.
std::string broadcast_text(Communicator& comm, const std::string& text);

/// Every rank's text, in rank order.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& text);

/// "rank 3 on host n17": for errors that tell where.
std::string rank_and_host(const Communicator& comm);

}  // namespace dlrm
