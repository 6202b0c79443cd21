#pragma once
#include <map>
#include <memory>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/folder_lock.h"

namespace dlrm {

/// The folders that this job reserved for itself. Rank 0 holds the locks.
class JobLocks {
 public:
  explicit JobLocks(Communicator& comm) : comm_(comm) {}

  /// Creates `directory` if needed and reserves it, unless it is reserved already. A usage_error on
  /// every rank, which begins with `key`, names the job that has it. Collective.
  void reserve(const std::string& key, const std::string& directory);

 private:
  Communicator& comm_;
  std::map<std::string, std::unique_ptr<FolderLock>> held_;  // by the folder's canonical path
};

/// The error of reserving `directory`, without keeping it. Empty if no other job has it.
/// Collective.
std::string user_of(Communicator& comm, const std::string& directory);

}  // namespace dlrm
