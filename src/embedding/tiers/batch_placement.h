#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/embedding/sharded_embeddings.h"

#include "embedding/pooling/owner_side.h"
#include "embedding/tables/layout.h"
#include "row_placement.h"

namespace dlrm {

/// Places the cached rows of routed batches. Ranks tell each other whether the rows fit, because
/// all of them throw if they do not.
class BatchPlacement {
 public:
  struct Batch {
    int64_t number = 0;  ///< in the placement
    FastNeed needed;     ///< 0 bytes: the rows fit
    std::vector<FastNeed> by_rank;
  };

  BatchPlacement(Communicator& comm, const EmbeddingLayout& layout, RowPlacement& placement);

  /// See RowPlacement.
  void announce() { placement_.announce(); }
  bool placed(const Batch& batch) { return placement_.placed(batch.number); }
  void await_placed(const Batch& batch) { placement_.await_placed(batch.number); }
  void release(bool updated) { placement_.release(updated); }
  void stop() { placement_.stop(); }

  /// Gives the rows of this rank's ids slots.
  void place(const OwnerSide& owner, Batch& batch);
  /// The batch is placed. All ranks start these calls in the order of batches.
  Pending start_agreeing(Batch& batch);
  void finish_agreeing(Batch& batch);

  /// True until the first step.
  bool in_first_window() const { return first_window_; }
  /// Throws usage_error on every rank if one of the batches placed so far does not fit. `idle`: no
  /// call of it is under way on any rank.
  void end_first_window(Communicator& idle);
  /// Waits until the rows of the oldest batch are in fast memory. Throws run_error on every rank if
  /// they do not fit.
  void await(const Batch& oldest);

 private:
  RowsDoNotFit rows_do_not_fit(ExitCode code, const FastNeed& needed) const;

  const EmbeddingLayout& layout_;
  RowPlacement& placement_;
  std::unique_ptr<Communicator> comm_;
  std::vector<int64_t> sizes_, offsets_;  ///< of a FastNeed from each rank
  bool first_window_ = true;
  FastNeed first_window_needs_;  ///< 0 bytes if its batches fit
};

}  // namespace dlrm
