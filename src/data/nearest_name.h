#pragma once
#include <string>
#include <vector>

namespace dlrm {

/// Of `names`, the one with the fewest edits to `name`; empty where there is none.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);

}  // namespace dlrm
