#pragma once
#include <chrono>
#include <functional>
#include <vector>

namespace dlrm::comm {

/// Runs each call on a thread of its own, and waits until all have returned, or for `limit`. A call
/// that has not returned then goes on, so it must own what it uses. Calls must not throw.
void run_at_most(std::chrono::milliseconds limit, const std::vector<std::function<void()>>& calls);

}  // namespace dlrm::comm
