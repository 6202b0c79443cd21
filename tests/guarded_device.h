#pragma once
#include <memory>

#include "dlrm/device/device.h"

namespace dlrm {

/// A device whose memory is that of `host` for hosts. It ends before a page that cannot be
/// accessed: an access beyond the end, also by a read, ends the program by SIGSEGV. Memory begins
/// at a multiple of `alignment`, 8 at least, so fewer bytes than that may lie between its end and
/// the page. A write there ends the program when the memory is freed.
std::shared_ptr<Device> make_guarded_device(size_t alignment,
                                            std::shared_ptr<Device> host = make_cpu_device());

}  // namespace dlrm
