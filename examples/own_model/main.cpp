// A custom model on sharded embeddings. Its logit is the sum of a sample's pooled vectors.
#include <cmath>

#include "dlrm/train/session.h"

int main(int argc, char** argv) {
  dlrm::Session session(&argc, &argv);
  return dlrm::run_guarded(session.world(), [&] {
    const dlrm::RunConfig config = dlrm::load_config(argc > 1 ? argv[1] : "model.yaml");
    dlrm::ShardedEmbeddings tables(session.context(), session.ops(),
                                   dlrm::embedding_options(config),
                                   dlrm::make_plan(config, session.size()));
    const int64_t batch = config.train.global_batch_size;
    const dlrm::Range mine = dlrm::part_of(batch, session.rank(), session.size());
    for (int64_t step = 0; step < config.train.steps; ++step) {
      std::vector<int64_t> ids, offsets = {0};  // two features: user, item
      for (int64_t s = mine.begin; s < mine.end; ++s) ids.push_back(s % 50);
      for (int64_t s = mine.begin; s < mine.end; ++s) ids.push_back((7 * s + step) % 20);
      for (size_t i = 1; i <= ids.size(); ++i) offsets.push_back(static_cast<int64_t>(i));

      const dlrm::MatrixView<const float> e = tables.forward({mine, batch, ids, offsets});
      const dlrm::MatrixView<float> de = tables.gradient().f32();
      double loss = 0;
      for (int64_t s = 0; s < e.rows; ++s) {
        double logit = 0;
        for (int64_t c = 0; c < e.cols; ++c) logit += e(s, c);
        const double label = ids[static_cast<size_t>(s)] % 2 == 0, p = 1 / (1 + std::exp(-logit));
        loss -= std::log(label > 0 ? p : 1 - p);
        for (int64_t c = 0; c < e.cols; ++c) de(s, c) = static_cast<float>((p - label) / batch);
      }
      tables.backward(config.train.sparse_optimizer.lr, step);
      session.comm().allreduce<double>({&loss, 1});
      session.log().info("step {}: loss {:.6f}", step + 1, loss / static_cast<double>(batch));
    }
    dlrm::save_checkpoint(session.comm(), session.log(), config.checkpoint.directory, 1,
                          {.step = config.train.steps}, tables.shards());
    return dlrm::ExitCode::kDone;
  });
}
