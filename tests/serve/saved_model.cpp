#include "saved_model.h"

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/trainer.h"

#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm::serve {
namespace {

constexpr int kRanks = 2;

/// The batch, whose ids are ordered by feature, as samples.
Samples samples_of(const RunConfig& config, const Batch& batch) {
  const int64_t features = config.model.num_features() - config.model.linear_features();
  Samples samples;
  samples.size = batch.size();
  samples.dense = batch.dense;
  for (int64_t s = 0; s < batch.size(); ++s) {
    for (int64_t f = 0; f < features; ++f) {
      const int64_t* bag = batch.offsets.data() + f * batch.size() + s;
      samples.ids.insert(samples.ids.end(), batch.ids.begin() + bag[0], batch.ids.begin() + bag[1]);
      if (!batch.id_weights.empty()) {
        samples.weights.insert(samples.weights.end(), batch.id_weights.begin() + bag[0],
                               batch.id_weights.begin() + bag[1]);
      }
      samples.offsets.push_back(static_cast<int64_t>(samples.ids.size()));
    }
  }
  return samples;
}

/// Values [labels, b] as [b, labels].
std::vector<float> by_sample(const std::vector<float>& by_label, size_t labels) {
  std::vector<float> values(by_label.size());
  const size_t b = by_label.size() / labels;
  for (size_t k = 0; k < values.size(); ++k) values[k] = by_label[k % labels * b + k / labels];
  return values;
}

}  // namespace

Evaluated save_model(const RunConfig& config, const std::string& directory, int64_t step) {
  Evaluated evaluated;
  run_on_threads(kRanks, [&](Communicator& comm) {
    TestRank rank(comm, config);
    Trainer trainer(rank.context, *rank.ops, config, make_plan(config, comm.size()), true);
    for (int64_t t = 0; t < step; ++t) {
      trainer.route(odd_batch(config, t, comm.rank(), comm.size()));
      trainer.step(t, false);
    }
    CheckpointState state;
    state.step = step;
    state.config = to_yaml(config);
    save_checkpoint(comm, rank.log, directory, 9, state, trainer.shards());
    std::vector<float> probabilities;
    TargetList targets;
    trainer.route(odd_batch(config, 7, comm.rank(), comm.size()));
    trainer.infer(probabilities, targets);
    probabilities = by_sample(probabilities, static_cast<size_t>(config.model.num_labels()));
    // Rank 0 gets the probabilities of all samples, in the order of ranks.
    const std::vector<int64_t> sizes = comm.allgather(static_cast<int64_t>(probabilities.size()));
    for (int from = 0; from < comm.size(); ++from) {
      std::vector<float> part(static_cast<size_t>(sizes[static_cast<size_t>(from)]));
      if (comm.rank() == from) part = probabilities;
      comm.broadcast(part.data(), part.size() * sizeof(float), from);
      if (comm.rank() > 0) continue;
      evaluated.probabilities.insert(evaluated.probabilities.end(), part.begin(), part.end());
    }
  });
  evaluated.samples = samples_of(config, odd_batch(config, 7, 0, 1));
  return evaluated;
}

std::string folder_of(const std::string& directory, int64_t step) {
  return fmt::format("{}/step_{:09}", directory, step);
}

}  // namespace dlrm::serve
