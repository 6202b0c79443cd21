#include "checkpoint_space.h"

#include <algorithm>
#include <filesystem>

#include "dlrm/core/shown_bytes.h"

#include "checkpoint_files.h"

namespace dlrm {
namespace {

/// The multiples of `every` in (step, total].
int64_t multiples(int64_t every, int64_t step, int64_t total) {
  return every > 0 ? total / every - step / every : 0;
}

std::string shown(int64_t bytes) { return shown_bytes(static_cast<size_t>(bytes)); }

}  // namespace

int64_t saved_bytes(Communicator& comm, const std::vector<TensorShard>& pieces) {
  int64_t bytes = 0;
  for (const TensorShard& piece : pieces) {
    if (piece.saves) bytes += piece.rows.size() * piece.columns.size() * int64_t{sizeof(float)};
  }
  comm.allreduce<int64_t>({&bytes, 1});
  return bytes;
}

int64_t added_checkpoints(const RunConfig& config, const EvaluationSteps& evaluations, int64_t step,
                          int64_t total, int64_t existing) {
  const CheckpointConfig& own = config.checkpoint;
  const bool keeps_best = own.keep_best != BestMetric::kNone;
  int64_t saves = multiples(own.every_steps, step, total);
  if (own.at_end && multiples(own.every_steps, total - 1, total) == 0) ++saves;
  if (keeps_best) saves += evaluations.count(step, total) + config.eval.at_end;
  if (step >= total || saves <= 0) return 0;
  const int64_t most = std::min<int64_t>(own.keep + (keeps_best ? 1 : 0) + 1, existing + saves);
  return std::max<int64_t>(most - existing, 1);
}

std::string space_warning(const CheckpointConfig& config, int64_t checkpoints, int64_t bytes,
                          int64_t free) {
  const double needed = static_cast<double>(checkpoints) * static_cast<double>(bytes);
  if (needed <= static_cast<double>(free)) return "";
  return fmt::format(
      "checkpoint.directory: {} has {} free, and {} checkpoint{} of {} would be there at a "
      "time{}: saving will fail; make room, or name another folder{}",
      config.directory, shown(free), checkpoints, checkpoints == 1 ? "" : "s", shown(bytes),
      checkpoints == 1 ? "" : " (checkpoint.keep, and the newest one)",
      bytes <= free ? ", or a smaller checkpoint.keep" : "");
}

void check_checkpoint_space(Communicator& comm, const Log& log, const RunConfig& config,
                            const EvaluationSteps& evaluations,
                            const std::vector<TensorShard>& pieces, int64_t step, int64_t total) {
  const int64_t bytes = saved_bytes(comm, pieces);
  if (comm.rank() != 0) return;
  const std::string& directory = config.checkpoint.directory;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error) return;
  const auto existing = static_cast<int64_t>(list_checkpoints(directory).size());
  const std::string warning = space_warning(
      config.checkpoint, added_checkpoints(config, evaluations, step, total, existing), bytes,
      static_cast<int64_t>(space.available));
  if (!warning.empty()) log.warn("{}", warning);
}

}  // namespace dlrm
