#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dlrm/ops/ops.h"

namespace dlrm {

/// One call of an operation on new operands, the same in every run.
struct CheckedCase {
  std::string name;
  std::function<void(Ops&)> run;
};

/// Cases of every operation: each type, activation, rule and optional operand.
std::vector<CheckedCase> checked_cases();

}  // namespace dlrm
