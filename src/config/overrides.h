#pragma once
#include <string>

#include "node.h"

namespace dlrm {

/// `root` with one `a.b.c=value` (the value is YAML) put in its place; maps on the way that are not
/// there are made. A segment below a list is an item's number, from 0, or its `name`. As one of
/// train.steps and train.epochs stands for the other, setting one takes away what the file says of
/// the other.
NodePtr with_override(const NodePtr& root, const std::string& override_text);

}  // namespace dlrm
