#pragma once
#include <string>

#include "node.h"

namespace dlrm {

/// `root` with one `a.b.c=value` applied; the value is YAML. Missing maps on the way are created. A
/// segment below a list is an item's number, from 0, or its `name`. train.steps and train.epochs
/// exclude each other, so setting one removes the other.
NodePtr with_override(const NodePtr& root, const std::string& override_text);

}  // namespace dlrm
