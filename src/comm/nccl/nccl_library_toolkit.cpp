#include <dlfcn.h>

#include "dlrm/core/error.h"

#include "nccl_library.h"

namespace dlrm::comm {
namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr int kOldest = 21800;

/// Sets `function`. If NCCL lacks it, returns false and sets `library.obstacle`.
template <class Function>
bool find(NcclLibrary& library, void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(handle, name));
  if (function) return true;
  library.obstacle = fmt::format("{} has no {}: NCCL 2.18 or later is needed", kFile, name);
  return false;
}

NcclLibrary load() {
  NcclLibrary n;
  void* handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = ::dlerror();
    n.obstacle = fmt::format("NCCL cannot be loaded ({}): install libnccl2",
                             reason ? reason : "no reason given");
    return n;
  }
  const bool complete =
      find(n, handle, "ncclGetVersion", n.get_version) &&
      find(n, handle, "ncclGetUniqueId", n.get_unique_id) &&
      find(n, handle, "ncclCommInitRankConfig", n.comm_init_rank_config) &&
      find(n, handle, "ncclCommFinalize", n.comm_finalize) &&
      find(n, handle, "ncclCommDestroy", n.comm_destroy) &&
      find(n, handle, "ncclCommAbort", n.comm_abort) &&
      find(n, handle, "ncclCommGetAsyncError", n.comm_get_async_error) &&
      find(n, handle, "ncclGetErrorString", n.get_error_string) &&
      find(n, handle, "ncclGetLastError", n.get_last_error) &&
      find(n, handle, "ncclGroupStart", n.group_start) &&
      find(n, handle, "ncclGroupEnd", n.group_end) && find(n, handle, "ncclSend", n.send) &&
      find(n, handle, "ncclRecv", n.recv) && find(n, handle, "ncclAllReduce", n.all_reduce);
  if (!complete) return n;
  if (n.get_version(&n.version) != ncclSuccess || n.version < kOldest) {
    n.obstacle = fmt::format("NCCL {} is too old: 2.18 or later is needed", n.version);
  }
  return n;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace dlrm::comm
