#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <system_error>

#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/train/checkpoint.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"
#include "checkpoint_index.h"
#include "checkpoint_rank_file.h"

namespace dlrm {

namespace {

std::string random_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}\n", device(), device(), device());
}

/// Throws if a rank does not find the file in `folder` that rank 0 has just written there.
void check_shared(Communicator& comm, const std::string& folder) {
  const std::string file = folder + "/token";
  const std::string token = broadcast_text(comm, random_token());
  agree_on_root(comm, [&] { write_file(file, token); });
  agree(comm, [&] {
    // A network file system may need some time.
    for (int tries = 0; tries < 20; ++tries) {
      if (read_file(file) == token) return;
      usleep(100'000);
    }
    throw usage_error("{}: {} does not see what rank 0 wrote there; all ranks need the same folder",
                      folder, rank_and_host(comm));
  });
  agree_on_root(comm, [&] {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  });
}

std::vector<const TensorShard*> pieces_to_save(const std::vector<TensorShard>& pieces) {
  std::vector<const TensorShard*> chosen;
  for (const TensorShard& piece : pieces) {
    DLRM_CHECK(piece.shape.size() == 1 || piece.shape.size() == 2, "{} has {} dimensions",
               piece.path, piece.shape.size());
    if (piece.saves && piece.rows.size() > 0 && piece.columns.size() > 0) chosen.push_back(&piece);
  }
  return chosen;
}

constexpr size_t kFields = 9;  // dimensions, shape, rows, columns, offset, CRC

/// Collects the pieces and files of all ranks on every rank.
CheckpointIndex gather_index(Communicator& comm, const CheckpointState& state,
                             const std::vector<const TensorShard*>& pieces, const RankFile& mine) {
  std::string names;
  std::vector<int64_t> fields;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const TensorShard& p = *pieces[i];
    names += p.path + "\n";
    fields.insert(fields.end(), {static_cast<int64_t>(p.shape.size()), p.shape[0],
                                 p.shape.size() > 1 ? p.shape[1] : 1, p.rows.begin, p.rows.end,
                                 p.columns.begin, p.columns.end, mine.offsets[i], mine.crcs[i]});
  }
  const std::vector<std::string> all_names = gather_texts(comm, names);
  const std::vector<int64_t> all_fields = comm.allgatherv(View<const int64_t>(fields));

  CheckpointIndex index;
  index.state = state;
  index.files = comm.allgather(mine.file);
  std::map<std::string, std::vector<StoredPiece>> by_tensor;
  std::map<std::string, std::vector<int64_t>> shapes;
  const int64_t* f = all_fields.data();
  for (size_t rank = 0; rank < all_names.size(); ++rank) {
    const std::string& text = all_names[rank];
    for (size_t begin = 0; begin < text.size(); f += kFields) {
      const size_t end = text.find('\n', begin);
      const std::string path = text.substr(begin, end - begin);
      std::vector<int64_t> shape(f + 1, f + 1 + f[0]);
      const auto known = shapes.emplace(path, shape).first;
      DLRM_CHECK(known->second == shape, "ranks disagree on the shape of {}", path);
      by_tensor[path].push_back(
          {0, {f[3], f[4]}, {f[5], f[6]}, static_cast<int64_t>(rank), f[7], f[8]});
      begin = end + 1;
    }
  }
  for (auto& [path, stored] : by_tensor) {
    std::sort(stored.begin(), stored.end(), [](const StoredPiece& a, const StoredPiece& b) {
      return std::pair(a.rows.begin, a.columns.begin) < std::pair(b.rows.begin, b.columns.begin);
    });
    for (StoredPiece& piece : stored) piece.tensor = static_cast<int64_t>(index.tensors.size());
    index.tensors.push_back({path, shapes[path]});
    index.pieces.insert(index.pieces.end(), stored.begin(), stored.end());
  }
  return index;
}

/// Keeps the newest `keep` checkpoints, counted from the one just saved, and the best one. Removes
/// all others. Checkpoints of later steps belong to an earlier run that this one did not continue.
void remove_old(const Log& log, const std::string& directory, int64_t saved, int keep) {
  int kept = 0;
  const auto best = best_checkpoint(directory);
  for (const std::string& name : list_checkpoints(directory)) {
    const int64_t step = *step_number(name);
    if (step <= saved && (kept++ < std::max(keep, 1) || name == best)) continue;
    if (step > saved) log.info("{}/{} is of a step not reached again: removed", directory, name);
    try {
      remove_checkpoint(directory, name);
    } catch (const Error& error) {
      log.warn("{}", error.what());
    }
  }
  unlink_best(directory, false);
  remove_leftovers(directory);
}

void write_checkpoint(Communicator& comm, const std::string& directory, const std::string& folder,
                      const CheckpointState& state, const std::vector<TensorShard>& pieces) {
  check_shared(comm, folder);
  std::vector<const TensorShard*> chosen;
  RankFile mine;
  agree(comm, [&] {
    chosen = pieces_to_save(pieces);
    mine = write_rank_file(folder + "/" + rank_file_name(comm.rank()), chosen);
    sync_folder(folder);
  });
  const std::vector<std::string> bad = gather_texts(comm, mine.not_finite);
  for (size_t rank = 0; rank < bad.size(); ++rank) {
    if (bad[rank].empty()) continue;
    throw NotFinite(
        fmt::format("step {} is not saved: {} is not finite (rank {}); the last checkpoint stands",
                    state.step, bad[rank], rank));
  }
  const CheckpointIndex index = gather_index(comm, state, chosen, mine);
  agree_on_root(comm, [&] {
    check_index(index, folder);
    write_index(folder, index);
    sync_folder(folder);
    exchange_or_rename(folder, directory + "/" + step_folder_name(state.step));
    sync_folder(directory);
  });
}

}  // namespace

void save_checkpoint(Communicator& comm, const Log& log, const std::string& directory, int keep,
                     const CheckpointState& state, const std::vector<TensorShard>& pieces) {
  const std::string folder = directory + "/.tmp_" + step_folder_name(state.step);
  agree_on_root(comm, [&] {
    remove_leftovers(directory);
    make_folders(folder);
  });
  try {
    write_checkpoint(comm, directory, folder, state, pieces);
  } catch (const PeerLost&) {
    throw;
  } catch (const Error&) {
    // All ranks have thrown, so no rank is still writing.
    if (comm.rank() == 0) remove_leftovers(directory);
    throw;
  }
  if (comm.rank() == 0) remove_old(log, directory, state.step, keep);
  comm.barrier();
}

void mark_best_checkpoint(Communicator& comm, const Log& log, const std::string& directory,
                          int keep, int64_t step) {
  agree_on_root(comm, [&] {
    link_best(directory, step_folder_name(step));
    remove_old(log, directory, step, keep);
  });
}

void check_checkpoint_folder(Communicator& comm, const std::string& directory) {
  const std::string folder = directory + "/.tmp_step_check";
  try {
    agree_on_root(comm, [&] {
      make_folders(directory);
      make_folders(folder);
    });
    check_shared(comm, folder);
    agree(comm, [&] { File(fmt::format("{}/{}", folder, comm.rank()), File::Mode::kCreate); });
  } catch (const PeerLost&) {
    throw;
  } catch (const Error& error) {
    if (comm.rank() == 0) remove_leftovers(directory);
    throw Error(ExitCode::kUsage, fmt::format("checkpoint.directory: {}", error.what()));
  }
  if (comm.rank() == 0) remove_leftovers(directory);
  comm.barrier();
}

void remove_checkpoints(Communicator& comm, const std::string& directory) {
  agree_on_root(comm, [&] {
    for (const std::string& name : list_checkpoints(directory)) remove_checkpoint(directory, name);
    unlink_best(directory, true);
    remove_leftovers(directory);
  });
}

}  // namespace dlrm
