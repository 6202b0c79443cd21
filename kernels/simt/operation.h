#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simt/simt.h"

namespace simt {

enum class WorkKind : unsigned char {
  kKernel,
  kCopy,
  kFill,
  kLibrary,
  kHostFunction,
  kFree,
  kMarker
};

/// The content of an operation. A graph's launches share it.
struct Work {
  WorkKind kind = WorkKind::kMarker;
  std::string name;
  std::function<void()> run;      ///< empty for a marker
  Range host_source{nullptr, 0};  ///< pinned memory that a copy reads
  Range host_target{nullptr, 0};  ///< pinned memory that a copy writes
  std::function<bool()> ready{};  ///< if set: it may run only if this returns true
  Amount amount{};                ///< for recordings
};

/// A queued piece of work. It may run once its needs are done.
struct Operation {
  std::shared_ptr<const Work> work;
  std::vector<std::shared_ptr<Operation>> dependents;
  size_t waiting_for = 0;  ///< needs that are not done yet
  std::vector<std::weak_ptr<Operation>> needs;
  bool done = false;
  uint64_t marked = 0;  ///< the last search that reached it
  double finished_ms = 0;
};

using OperationPtr = std::shared_ptr<Operation>;

}  // namespace simt
