#include "job_locks.h"

#include <filesystem>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

void JobLocks::reserve(const std::string& key, const std::string& directory) {
  agree_on_root(comm_, [&] {
    try {
      make_folders(directory);
      std::unique_ptr<FolderLock>& lock = held_[std::filesystem::canonical(directory)];
      if (lock && lock->in_place()) return;
      lock.reset();  // its file is gone, or that cannot be told
      lock = std::make_unique<FolderLock>(directory);
    } catch (const std::exception& error) {
      throw usage_error("{}: {}", key, error.what());
    }
  });
}

std::string user_of(Communicator& comm, const std::string& directory) {
  std::string text;
  if (comm.rank() == 0) {
    try {
      const FolderLock probe(directory);
    } catch (const Error& error) {
      text = error.what();
    }
  }
  return broadcast_text(comm, text);
}

}  // namespace dlrm
