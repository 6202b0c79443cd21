#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dlrm/train/session.h"

namespace dlrm {

/// A tensor of the program, equal on all ranks, in its memory.
struct NamedTensor {
  std::string path;            ///< in checkpoints: "/mlp/top/0/weight"; not below /tables
  std::vector<int64_t> shape;  ///< one or two dimensions
  float* data = nullptr;       ///< row-major
};

/// Sharded tables for a program that knows only its own samples of a batch. The constructor,
/// forward(), update(), save() and load() are collective. If bags, options or files are bad on one
/// rank, they throw that rank's error on all of them.
class Tables {
 public:
  /// Follows `config.model.tables`, `config.train` and `config.sharding`, which must be the same on
  /// all ranks. Global batches have at most `config.train.global_batch_size` samples, rounded up to
  /// a multiple of the ranks.
  Tables(std::shared_ptr<Session> session, RunConfig config);

  /// Pools the bags of this rank's b samples. The global batch consists of the samples of all
  /// ranks, in rank order, and is divided as by part_of(). Ends a batch that was not updated. If it
  /// throws, nothing has changed.
  ///
  /// @param ids      feature-major, then sample
  /// @param offsets  [features·b + 1] into ids
  /// @param weights  of the ids, if a feature has weights
  /// @return [b, W], at the same address for every batch; valid until the next call
  MatrixView<const float> forward(View<const int64_t> ids, View<const int64_t> offsets,
                                  View<const float> weights = {});
  /// [b, W] for the gradient of the global batch's loss, which the caller fills before update().
  MatrixView<float> gradient() { return tables_->gradient().f32(); }
  /// Updates the rows of the batch, and ends it.
  void update(double learning_rate);
  /// Ends a batch without an update.
  void drop();

  /// This rank's part of the last global batch: b / B.
  double share() const { return share_; }
  int64_t step() const { return state_.step; }  ///< updates done
  int64_t width() const { return tables_->width(); }
  std::vector<std::string> features() const;  ///< in the order of ids and of columns
  double learning_rate() const { return config_.train.sparse_optimizer.lr; }
  std::string plan() const { return to_json(tables_->plan(), config_.model); }

  /// Saves the tables, and rank 0's `tensors`.
  void save(const std::string& directory, const std::vector<NamedTensor>& tensors, int keep);
  /// Reads the newest good checkpoint in `directory`, or the one that it names, and fills
  /// `tensors`. With `weights_only` optimizer state of tables and the number of steps are not read.
  void load(const std::string& directory, const std::vector<NamedTensor>& tensors,
            bool weights_only);

 private:
  Range my_part(int64_t mine, int64_t& global_size) const;
  void route(const LocalBags& bags);
  const std::vector<int64_t>& offsets_of_empty_bags(int64_t samples);

  const std::shared_ptr<Session> session_;
  const RunConfig config_;
  const int64_t most_samples_;  ///< of a global batch
  std::unique_ptr<ShardedEmbeddings> tables_;
  std::vector<int64_t> zeros_;  ///< offsets of empty bags
  CheckpointState state_;
  int64_t global_size_ = 0;
  double share_ = 0;
};

}  // namespace dlrm
