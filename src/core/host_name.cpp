#include "dlrm/core/host_name.h"

#include <array>

#include <unistd.h>

namespace dlrm {

std::string host_name() {
  std::array<char, 256> name{};  // the last byte stays 0
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace dlrm
