#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dlrm/device/device.h"

#include "arena.h"

namespace dlrm::comm {

/// Returns a device that allocates from `arena` and otherwise behaves as `inner`. If the arena has
/// no more memory, it calls `on_refusal` and allocates from `inner`. An allocation of more than
/// `room()` bytes throws run_error: the kernel would kill a process that exceeds its control
/// group's limit.
std::unique_ptr<Device> make_arena_device(Device& inner, Arena& arena,
                                          std::function<void(size_t bytes)> on_refusal,
                                          std::function<double()> room);

}  // namespace dlrm::comm
