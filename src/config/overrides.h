#pragma once
#include <string>

#include "node.h"

namespace dlrm {

/// Returns `root` with one `a.b.c=value` applied. The value is YAML. Missing maps on the way are
/// created. Below a list, a segment is an item's number, from 0, or its `name`. Setting train.steps
/// removes train.epochs, and vice versa.
NodePtr with_override(const NodePtr& root, const std::string& override_text);

}  // namespace dlrm
