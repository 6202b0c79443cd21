#include "dlrm/train/session.h"
#include "dlrm/train/trainer.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

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
