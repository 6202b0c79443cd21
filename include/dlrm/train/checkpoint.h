#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/error.h"
#include "dlrm/core/log.h"
#include "dlrm/core/tensor_shard.h"

namespace dlrm {

/// The progress of a run: root attributes of index.h5.
struct CheckpointState {
  int64_t step = 0;     ///< steps done
  int64_t samples = 0;  ///< samples trained on
  int64_t epoch = 0;
  int64_t batch = 0;  ///< next batch of the epoch
  uint64_t seed = 0;
  int64_t data_samples = 0;  ///< of the training data; 0: not known
  std::string config;        ///< resolved YAML
  std::string plan;          ///< plan.json
  std::string
      preprocessing;  ///< of the training data (BatchSource::preprocessing()); on rank 0 alone
  std::string evaluations;  ///< EvaluationHistory::text(), empty if there were none
  /// By rank: the algorithms that its operations chose by timing (Ops::tuned_algorithms).
  std::vector<std::string> tuned_algorithms;
};

/// A run_error: what was to be saved holds a value that is NaN or infinite.
class NotFinite : public Error {
 public:
  explicit NotFinite(const std::string& text) : Error(ExitCode::kFailure, text) {}
};

/// Saves `step_<9 digits>/` in `directory`: one HDF5 file per rank, and index.h5 with Virtual
/// Datasets that show every tensor whole. The folder is written under a temporary name, synced and
/// renamed. Then all but the newest `keep` checkpoints are removed. This one and the best one
/// always stay. Checkpoints of later steps, which this run did not continue, are removed.
/// Collective: if one rank fails, every rank throws its error. Throws NotFinite, which names the
/// tensor and the row, if a value is not finite. After a failure, or a crash at any time, older
/// checkpoints are intact.
void save_checkpoint(Communicator& comm, const Log& log, const std::string& directory, int keep,
                     const CheckpointState& state, const std::vector<TensorShard>& pieces);

/// Lets the link `best` in `directory` name the checkpoint of `step`, and removes the one that it
/// named before unless that is one of the newest `keep`. Collective.
void mark_best_checkpoint(Communicator& comm, const Log& log, const std::string& directory,
                          int keep, int64_t step);

/// Creates the folder for checkpoints if needed, and checks before the first step that every rank
/// can see it and write to it. If a rank cannot, every rank throws a usage_error that names the
/// rank and its host. Collective.
void check_checkpoint_folder(Communicator& comm, const std::string& directory);

/// The newest good checkpoint in `path`, which may be a link to one, such as `best`. A good
/// checkpoint is complete, its files have the right size and CRC32C, and its values are finite.
/// Empty if there is no checkpoint. A damaged one causes a warning, and an older one is used.
/// usage_error if all are damaged, if `path` is itself a damaged `step_*` folder, or if not all
/// ranks see the folder. Collective: every rank gets the same result.
std::optional<std::string> find_checkpoint(Communicator& comm, const std::string& path);

/// The checkpoint to predict with: like find_checkpoint(), but of a folder that has the link `best`
/// (checkpoint.keep_best) the checkpoint that it names.
std::optional<std::string> find_trained(Communicator& comm, const std::string& path);

/// Whether `directory` has a `step_*` folder, good or not. Collective: every rank gets rank 0's
/// result.
bool has_checkpoints(Communicator& comm, const std::string& directory);

/// Verifies file sizes and CRC32C, and reads the state. Set `verified` if find_checkpoint has just
/// verified them. Then only sizes and the index are verified. usage_error if the checkpoint is
/// damaged. Collective.
CheckpointState open_checkpoint(Communicator& comm, const std::string& checkpoint,
                                bool verified = false);

/// How the samples of the training data were made of records, of a checkpoint that was verified.
/// Empty if it does not say.
std::string read_preprocessing(const std::string& checkpoint);

/// Fills every piece from a checkpoint of any sharding. If shapes differ, a usage_error names the
/// tensor. With `weights_only`, the optimizer's state is left out. Collective.
void load_pieces(Communicator& comm, const std::string& checkpoint,
                 const std::vector<TensorShard>& pieces, bool weights_only);

/// Where a piece lies in a file: rows of float32 that follow one another.
struct PlaceInFile {
  std::string file;
  int64_t offset = 0;  ///< bytes
};

/// The place of each piece, or none if its rows lie in several files or their columns differ. A
/// usage_error names a tensor whose shape differs. Collective.
std::vector<std::optional<PlaceInFile>> find_in_files(Communicator& comm,
                                                      const std::string& checkpoint,
                                                      const std::vector<TensorShard>& pieces);

/// Rank 0 removes every step_* and .tmp_step_* of the folder, and the link `best` (--overwrite).
/// Collective.
void remove_checkpoints(Communicator& comm, const std::string& directory);

}  // namespace dlrm
