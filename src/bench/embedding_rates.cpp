#include "embedding_rates.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/core.h>

#include "dlrm/core/hash.h"
#include "dlrm/core/partition.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/train/session.h"

#include "repeat.h"
#include "surroundings.h"

namespace dlrm::bench {
namespace {

constexpr int kTablesOfRank = 4;
constexpr int64_t kRows = 65536;
constexpr int64_t kColumns = 4;
constexpr int64_t kHotness = 8;
constexpr int64_t kIdsOfRank = 1 << 15;

RunConfig config_for(int world, int threads) {
  RunConfig config;
  config.device = DeviceKind::kCpu;
  config.train.threads = threads;
  config.sharding.strategy = Strategy::kTable;
  config.model.top_mlp = {1};
  config.model.interaction = ConcatConfig();
  for (int t = 0; t < kTablesOfRank * world; ++t) {
    TableConfig table;
    table.name = table.group = fmt::format("t{}", t);
    table.rows = kRows;
    table.dim = kColumns;
    table.features.push_back({table.name, kHotness, Pooling::kSum});
    config.model.tables.push_back(table);
  }
  const int64_t samples = kIdsOfRank / (kTablesOfRank * kHotness * world);
  config.train.global_batch_size = world * std::max<int64_t>(samples, 1);
  return config;
}

/// Uniform ids of a rank's samples.
struct Bags {
  Bags(const RunConfig& config, int rank, int world) {
    local = part_of(config.train.global_batch_size, rank, world);
    const int64_t bags = local.size() * static_cast<int64_t>(config.model.tables.size());
    for (int64_t bag = 0; bag <= bags; ++bag) offsets.push_back(bag * kHotness);
    for (int64_t i = 0; i < bags * kHotness; ++i) {
      const auto drawn = mix64(static_cast<uint64_t>(i * world + rank));
      ids.push_back(static_cast<int64_t>(drawn % kRows));
    }
  }
  Range local;
  std::vector<int64_t> ids, offsets;
};

enum Phase { kRoute, kReceive, kLookup, kUpdate, kPhases };

/// The least seconds of each phase. All ranks begin a phase together, and the slowest one counts.
class Phases {
 public:
  explicit Phases(Communicator& comm) : comm_(comm) {
    best_.fill(std::numeric_limits<int64_t>::max());
  }

  template <class Work>
  void time(Phase phase, const Work& work) {
    comm_.barrier();
    const double begin = now_seconds();
    work();
    int64_t taken[] = {static_cast<int64_t>((now_seconds() - begin) * 1e9)};
    comm_.allreduce_max(taken);
    best_[phase] = std::min(best_[phase], taken[0]);
  }
  double seconds(Phase phase) const { return 1e-9 * static_cast<double>(best_[phase]); }

 private:
  Communicator& comm_;
  std::array<int64_t, kPhases> best_;
};

}  // namespace

EmbeddingRates measure_embeddings(Communicator& comm, const MachineShare& share, int threads,
                                  double seconds, double exchange_seconds, double byte_seconds) {
  const RunConfig config = config_for(comm.size(), threads);
  Surroundings s(comm, config, share);
  ShardedEmbeddings embeddings(s.context, *s.ops, embedding_options(config),
                               make_plan(config, comm.size()));
  const Bags own(config, comm.rank(), comm.size());
  const LocalBags bags{own.local, config.train.global_batch_size, own.ids, own.offsets};
  Phases phases(comm);
  constexpr int kLeast = 4;
  const double end = now_seconds() + seconds;
  for (int done = 0; true; ++done) {
    char more = done < kLeast || now_seconds() < end;
    comm.broadcast(&more, 1, 0);
    if (!more) break;
    phases.time(kRoute, [&] { embeddings.route(bags); });
    phases.time(kReceive, [&] {
      embeddings.await_ids();
      embeddings.prepare_ids();
    });
    phases.time(kLookup, [&] { embeddings.lookup(); });
    embeddings.start_return();
    embeddings.finish_return();
    const MatrixView<float> gradient = embeddings.gradient().f32();
    for (int64_t r = 0; r < gradient.rows; ++r) {
      std::fill_n(gradient.data + r * gradient.stride, gradient.cols, 0.0f);
    }
    embeddings.start_backward();
    comm.barrier();
    phases.time(kUpdate, [&] { embeddings.update(0, done); });
  }
  const auto ids = static_cast<double>(own.ids.size());
  const double remote = static_cast<double>(comm.size() - 1) / comm.size();
  const double exchanged = exchange_seconds + 4 * ids * remote * byte_seconds;
  const double vectors = 4.0 * kColumns / kHotness * ids * remote * byte_seconds;
  const auto of_id = [&](double taken) { return std::max(taken, 0.0) / ids; };
  return {of_id(phases.seconds(kRoute)), of_id(phases.seconds(kReceive) - exchanged),
          of_id(phases.seconds(kLookup)), of_id(phases.seconds(kUpdate) - vectors)};
}

}  // namespace dlrm::bench
