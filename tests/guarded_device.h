#pragma once
#include <memory>

#include "dlrm/device/device.h"

namespace dlrm {

/// A CPU whose device memory ends before a page that cannot be accessed. An access beyond the end,
/// also by a read, ends the program by SIGSEGV. Memory begins at a multiple of `alignment`, 8 at
/// least, so fewer bytes than that may lie between its end and the page. A write there ends the
/// program when the memory is freed.
std::shared_ptr<Device> make_guarded_device(size_t alignment);

}  // namespace dlrm
