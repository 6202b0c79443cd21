#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/log.h"
#include "dlrm/core/partition.h"

namespace dlrm {

/// A rectangle of a tensor that lies on this rank, for saving and loading.
struct TensorShard {
  std::string path;            ///< "/tables/C1/weight", "/mlp/top/0/bias", ...
  std::vector<int64_t> shape;  ///< of the whole tensor: one or two dimensions
  Range rows;                  ///< the part that is here
  Range columns;               ///< [0, 1) for a one-dimensional tensor
  bool saves = true;  ///< false where another rank saves the same part; it loads all the same
  /// Copies rows [first, first + count) of the part (0 = rows.begin) to out [count,
  /// columns.size()].
  std::function<void(int64_t first, int64_t count, float* out)> read;
  std::function<void(int64_t first, int64_t count, const float* in)> write;
};

/// Where a run stood, root attributes of index.h5.
struct CheckpointState {
  int64_t step = 0;     ///< steps done
  int64_t samples = 0;  ///< samples trained on
  int64_t epoch = 0;
  int64_t batch = 0;  ///< next batch of the epoch
  uint64_t seed = 0;
  std::string config;  ///< resolved YAML
  std::string plan;    ///< plan.json
  /// By rank, what its operations chose by timing (Ops::tuned_algorithms).
  std::vector<std::string> tuned_algorithms;
};

/// Saves `step_<9 digits>/` in `directory`: one HDF5 file a rank and index.h5 with Virtual Datasets
/// that show every tensor whole; written aside, synced, renamed; then removes all but the newest
/// `keep` (this one always stays; those of later steps, left by a run that went on from an earlier
/// step, go too). Collective: where one rank fails, every rank throws its error, and the older
/// checkpoints stay as they were. So they do after a crash at any instant.
void save_checkpoint(Communicator& comm, const Log& log, const std::string& directory, int keep,
                     const CheckpointState& state, const std::vector<TensorShard>& pieces);

/// Creates the folder for checkpoints where needed and makes sure that every rank sees and may
/// write it, before any step is spent. Collective: usage_error on every rank naming the rank and
/// host that does not.
void check_checkpoint_folder(Communicator& comm, const std::string& directory);

/// The newest good checkpoint in `path`: complete, its files' sizes and CRC32C verified; none where
/// there is none. A damaged one is warned about and an older one taken; usage_error where all are
/// damaged, or where `path` itself is one `step_*` folder and is. Collective: every rank gets the
/// same answer, and usage_error where not all ranks see the folder.
std::optional<std::string> find_checkpoint(Communicator& comm, const std::string& path);

/// True where `directory` holds a `step_*` folder, good or not. Collective: rank 0's answer.
bool has_checkpoints(Communicator& comm, const std::string& directory);

/// Verifies file sizes and CRC32C (sizes and the index alone where `verified` says that
/// find_checkpoint has just done so), and reads the state; usage_error where it is
/// damaged. Collective.
CheckpointState open_checkpoint(Communicator& comm, const std::string& checkpoint,
                                bool verified = false);

/// Fills every piece from the checkpoint, whatever sharding wrote it. Shapes must agree
/// (usage_error naming the tensor). With `weights_only` a piece named */weight or */bias (or cross
/// v, u) alone is read. Collective.
void load_pieces(Communicator& comm, const std::string& checkpoint,
                 const std::vector<TensorShard>& pieces, bool weights_only);

/// Removes every step_* and .tmp_step_* of the folder (--overwrite). Rank 0 works, all wait.
void remove_checkpoints(Communicator& comm, const std::string& directory);

}  // namespace dlrm
