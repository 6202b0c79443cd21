#include "sample_rates.h"

#include <algorithm>

#include <fmt/core.h>

#include "dlrm/data/batch_source.h"

#include "repeat.h"

namespace dlrm::bench {
namespace {

constexpr int kFeatures = 26;
constexpr int64_t kDenseFeatures = 13;
constexpr int64_t kRows = 1 << 20;
constexpr int64_t kSamplesOfRank = 1024;

RunConfig config_for(int world) {
  RunConfig config;
  config.data.source = DataKind::kSynthetic;
  config.model.dense_features = kDenseFeatures;
  for (int t = 0; t < kFeatures; ++t) {
    TableConfig table;
    table.name = table.group = fmt::format("t{}", t);
    table.rows = kRows;
    table.features.push_back({table.name, 1, Pooling::kSum});
    config.model.tables.push_back(table);
  }
  config.train.global_batch_size = kSamplesOfRank * world;
  config.data.synthetic.samples = 16 * config.train.global_batch_size;
  return config;
}

}  // namespace

double measure_draws(Communicator& comm, double seconds) {
  const RunConfig config = config_for(comm.size());
  const std::unique_ptr<BatchSource> source =
      make_batch_source(config, Split::kTrain, comm.rank(), comm.size());
  Batch batch;
  int64_t next = 0;
  const int64_t batches = source->plan().batches_per_epoch();
  comm.barrier();
  const double best = fastest_seconds(seconds, [&] { source->load(next++ % batches, batch); });
  int64_t slowest[] = {static_cast<int64_t>(1e9 * best)};
  comm.allreduce_max(slowest);
  return 1e-9 * static_cast<double>(slowest[0]) / static_cast<double>(kSamplesOfRank * kFeatures);
}

}  // namespace dlrm::bench
