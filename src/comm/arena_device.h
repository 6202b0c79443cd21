#pragma once
#include <memory>

#include "dlrm/device/device.h"

#include "arena.h"

namespace dlrm {

/// `inner`, but for memory that comes from `arena` as long as that has some.
std::unique_ptr<Device> make_arena_device(Device& inner, Arena& arena);

}  // namespace dlrm
