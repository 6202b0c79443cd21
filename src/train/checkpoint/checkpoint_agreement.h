#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// Runs `work` on every rank. `work` must make no collective calls. If it throws on any rank, all
/// ranks throw the error of the lowest such rank.
void agree(Communicator& comm, const std::function<void()>& work);

/// Like agree(), but `work` runs only on rank 0.
void agree_on_root(Communicator& comm, const std::function<void()>& work);

/// Returns rank 0's text on every rank.
std::string broadcast_text(Communicator& comm, const std::string& text);

/// Returns every rank's text, in rank order.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& text);

/// "rank 3 on host n17", for errors.
std::string rank_and_host(const Communicator& comm);

}  // namespace dlrm
