#pragma once
#include <dlfcn.h>

namespace dlrm::testing {

/// The system's function of this name, where a test's own one precedes it.
template <class Function>
Function* real_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace dlrm::testing
