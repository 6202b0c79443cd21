#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dlrm/device/device.h"

#include "arena.h"

namespace dlrm {

/// `inner`, but for memory that comes from `arena` as long as that has some; `on_refusal` is told
/// when it has no more. Throws run_error where `room` bytes, which a control group leaves, are too
/// few: the system ends a process that takes more.
std::unique_ptr<Device> make_arena_device(Device& inner, Arena& arena,
                                          std::function<void(size_t bytes)> on_refusal,
                                          std::function<double()> room);

}  // namespace dlrm
