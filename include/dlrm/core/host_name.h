#pragma once
#include <string>

namespace dlrm {

/// The name of this machine, or "unknown". Containers may share a name.
std::string host_name();

}  // namespace dlrm
