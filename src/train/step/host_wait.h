#pragma once
#include <thread>

#include "dlrm/comm/context.h"
#include "dlrm/nn/mlp.h"

namespace dlrm {

/// Blocks the host until the device reaches `event`. The watchdog limits the wait. If other ranks
/// depend on this rank's polls, calls `progress` while it waits.
inline void wait_for(Event& event, Context& context, const Progress& progress) {
  if (!context.comm.needs_progress()) return event.synchronize();
  while (!event.reached()) {
    progress();
    context.device_comm().check_alive();
    std::this_thread::yield();
  }
}

}  // namespace dlrm
