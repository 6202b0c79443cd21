#include <filesystem>

#include "dlrm/core/error.h"
#include "dlrm/train/checkpoint.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"
#include "checkpoint_index.h"
#include "checkpoint_verify.h"

namespace dlrm {

namespace fs = std::filesystem;

namespace {

std::string beside(const std::string& path, const std::string& name) {
  const fs::path clean = fs::path(path).lexically_normal();
  return ((clean.has_filename() ? clean : clean.parent_path()).parent_path() / name).string();
}

/// Throws if a rank and rank 0 disagree on whether the folder exists.
void check_all_see(Communicator& comm, const std::string& path, bool there) {
  agree(comm, [&] {
    std::error_code ignored;
    if (fs::is_directory(path, ignored) == there) return;
    throw usage_error("{}: {} {}; all ranks need the same folder", path, rank_and_host(comm),
                      there ? "does not see this folder" : "sees this folder, rank 0 does not");
  });
}

/// Verifies a checkpoint that the user named. Damage is a usage_error.
CheckpointIndex verify_named(Communicator& comm, const std::string& folder, Verify depth) {
  try {
    return verify_checkpoint(comm, folder, depth);
  } catch (const PeerLost&) {
    throw;
  } catch (const Error& error) {
    throw Error(ExitCode::kUsage, error.what());
  }
}

/// Describes the damage of a checkpoint. Empty if it is good.
std::optional<std::string> damage(Communicator& comm, const std::string& folder) {
  try {
    verify_checkpoint(comm, folder, Verify::kContents);
    return {};
  } catch (const PeerLost&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == ExitCode::kUsage) throw;
    return error.what();
  }
}

}  // namespace

bool has_checkpoints(Communicator& comm, const std::string& directory) {
  char found = 0;
  if (comm.rank() == 0) found = list_checkpoints(directory).empty() ? 0 : 1;
  comm.broadcast(&found, 1, 0);
  return found != 0;
}

std::optional<std::string> find_checkpoint(Communicator& comm, const std::string& given) {
  // Rank 0 reads a link such as `best`, which another run may change meanwhile. Folders are each
  // rank's own, so that a rank which sees another one is noticed.
  const std::string target = resolve_link(given);
  const std::string name = broadcast_text(comm, target == given ? "" : folder_name(target));
  const std::string path = name.empty() ? given : beside(given, name);
  std::error_code ignored;
  char there = fs::is_directory(path, ignored) ? 1 : 0;
  comm.broadcast(&there, 1, 0);
  check_all_see(comm, path, there != 0);
  const bool named = step_number(folder_name(path)).has_value();
  if (there == 0 && named) throw usage_error("{}: there is no such checkpoint", path);
  if (there == 0) return {};
  if (named) {
    verify_named(comm, path, Verify::kContents);
    return path;
  }

  std::string names;
  if (comm.rank() == 0) {
    for (const std::string& name : list_checkpoints(path)) names += name + "\n";
  }
  names = broadcast_text(comm, names);
  const Log log(comm.rank());
  std::string newest_damage;
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = names.find('\n', begin);
    const std::string folder = path + "/" + names.substr(begin, end - begin);
    begin = end + 1;
    const auto what = damage(comm, folder);
    if (!what) return folder;
    if (comm.rank() == 0) log.warn("{}", *what);
    if (newest_damage.empty()) newest_damage = *what;
  }
  if (newest_damage.empty()) return {};
  throw usage_error("{}: no checkpoint in it is good: {}", path, newest_damage);
}

std::optional<std::string> find_trained(Communicator& comm, const std::string& given) {
  const std::string best =
      broadcast_text(comm, comm.rank() == 0 ? best_checkpoint(given).value_or("") : "");
  return find_checkpoint(comm, best.empty() ? given : (fs::path(given) / best).string());
}

CheckpointState open_checkpoint(Communicator& comm, const std::string& checkpoint, bool verified) {
  return verify_named(comm, checkpoint, verified ? Verify::kSizes : Verify::kContents).state;
}

}  // namespace dlrm
