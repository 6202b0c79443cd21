#include "dlrm/core/error.h"

namespace dlrm {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  throw run_error("internal error at {}:{}: {} does not hold{}{}", file, line, condition,
                  detail.empty() ? "" : ": ", detail);
}

}  // namespace dlrm
