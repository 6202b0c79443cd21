#include "dlrm/train/session.h"
#include "dlrm/train/trainer.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

void Trainer::initialise() {
  embeddings_.initialise();
  // Parameters::initialise() does not write state that begins at 0.
  for (const TensorShard& shard : model_.parameters().shards(false)) {
    const std::vector<float> zeros(static_cast<size_t>(shard.rows.size() * shard.columns.size()));
    shard.write(0, shard.rows.size(), zeros.data());
  }
  initialise_dense();
}

void Trainer::initialise_dense() {
  const TrainConfig& train = config_.train;
  model_.parameters().initialise(train.seed,
                                 static_cast<float>(train.dense_optimizer.initial_accumulator));
}

std::vector<std::string> Trainer::tuned_algorithms() const {
  const std::vector<std::byte> mine = ops_.tuned_algorithms();
  return gather_texts(context_.comm, {reinterpret_cast<const char*>(mine.data()), mine.size()});
}

void Trainer::restore_tuned_algorithms(const std::vector<std::string>& by_rank) {
  if (by_rank.size() != static_cast<size_t>(context_.comm.size())) return;
  const std::string& mine = by_rank[static_cast<size_t>(context_.comm.rank())];
  ops_.restore_tuned_algorithms({reinterpret_cast<const std::byte*>(mine.data()), mine.size()});
}

std::vector<TensorShard> Trainer::shards() {
  std::vector<TensorShard> all = embeddings_.shards();
  for (TensorShard& shard : model_.parameters().shards(context_.comm.rank() == 0)) {
    all.push_back(std::move(shard));
  }
  return all;
}

}  // namespace dlrm
