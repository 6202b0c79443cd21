#include "overhead_rates.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include <fmt/core.h>

#include "dlrm/core/hash.h"
#include "dlrm/core/partition.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/train/session.h"

#include "repeat.h"
#include "surroundings.h"

namespace dlrm::bench {
namespace {

constexpr int64_t kRowsOfShard = 16;
constexpr int64_t kColumns = 4;
constexpr int kTablesOfRank = 64;
constexpr int kShardsOfRank = 512;
constexpr int kMostTables = 2048;

/// The least seconds of a call that all ranks begin together, of the slowest rank.
class Fastest {
 public:
  explicit Fastest(Communicator& comm) : comm_(comm) {}

  void time(const std::function<void()>& work) {
    comm_.barrier();
    const double begin = now_seconds();
    work();
    int64_t taken[] = {static_cast<int64_t>((now_seconds() - begin) * 1e9)};
    comm_.allreduce_max(taken);
    best_ = std::min(best_, taken[0]);
  }
  double seconds() const { return 1e-9 * static_cast<double>(best_); }

 private:
  Communicator& comm_;
  int64_t best_ = std::numeric_limits<int64_t>::max();
};

/// Calls work(0), work(1), ... for `seconds`, as often on all ranks.
void take_turns(Communicator& comm, double seconds, const std::function<void(int64_t)>& work) {
  constexpr int kLeast = 4;
  const double end = now_seconds() + seconds;
  for (int64_t done = 0; true; ++done) {
    char more = done < kLeast || now_seconds() < end;
    comm.broadcast(&more, 1, 0);
    if (!more) return;
    work(done);
  }
}

int tables_of(int world) { return std::min(kTablesOfRank * world, kMostTables); }
int parts_of(int world) {
  return static_cast<int>(int64_t{kShardsOfRank} * world / tables_of(world));
}

/// Each rank has a sample for each row shard of a table.
RunConfig config_for(int world, int threads) {
  RunConfig config;
  config.device = DeviceKind::kCpu;
  config.train.threads = threads;
  config.model.top_mlp = {1};
  config.model.interaction = ConcatConfig();
  for (int t = 0; t < tables_of(world); ++t) {
    TableConfig table;
    table.name = table.group = fmt::format("t{}", t);
    table.rows = kRowsOfShard * parts_of(world);
    table.dim = kColumns;
    table.features.push_back({table.name, 1, Pooling::kSum});
    config.model.tables.push_back(table);
  }
  config.train.global_batch_size = int64_t{world} * parts_of(world);
  return config;
}

/// Each table in so many row shards, on ranks that follow each other.
Plan cut_by_rows(const RunConfig& config, int parts, int world) {
  Plan plan;
  plan.world = world;
  for (int rank = 0; rank < world; ++rank) {
    for (size_t t = 0; t < config.model.tables.size(); ++t) {
      const TableConfig& table = config.model.tables[t];
      for (int part = 0; part < parts; ++part) {
        const int table_number = static_cast<int>(t);
        if ((table_number + part) % world != rank) continue;
        plan.shards.push_back(
            {table_number, part_of(table.rows, part, parts), {0, table.dim}, rank});
      }
    }
  }
  return plan;
}

/// The ids of a rank's samples, one in a bag, and one of a table for each of its row shards.
struct Ids {
  Ids(const RunConfig& config, int rank, int world)
      : local(part_of(config.train.global_batch_size, rank, world)) {
    offsets.push_back(0);
    for (size_t t = 0; t < config.model.tables.size(); ++t) {
      for (int64_t i = 0; i < local.size(); ++i) {
        const uint64_t drawn = mix64(static_cast<uint64_t>(offsets.back() * world + rank));
        ids.push_back(i * kRowsOfShard + static_cast<int64_t>(drawn % kRowsOfShard));
        offsets.push_back(offsets.back() + 1);
      }
    }
  }
  Range local;
  std::vector<int64_t> ids, offsets;
};

void do_step(ShardedEmbeddings& embeddings, const LocalBags& bags, int64_t t) {
  embeddings.route(bags);
  embeddings.await_ids();
  embeddings.prepare_ids();
  embeddings.lookup();
  embeddings.start_return();
  embeddings.finish_return();
  const MatrixView<float> gradient = embeddings.gradient().f32();
  for (int64_t r = 0; r < gradient.rows; ++r) {
    std::fill_n(gradient.data + r * gradient.stride, gradient.cols, 0.0f);
  }
  embeddings.start_backward();
  embeddings.update(0, t);
}

double measure_shards(Communicator& comm, const RunConfig& config, Surroundings& s,
                      double seconds) {
  const int parts = parts_of(comm.size());
  ShardedEmbeddings whole(s.context, *s.ops, embedding_options(config),
                          cut_by_rows(config, 1, comm.size()));
  ShardedEmbeddings cut(s.context, *s.ops, embedding_options(config),
                        cut_by_rows(config, parts, comm.size()));
  const Ids own(config, comm.rank(), comm.size());
  const LocalBags bags{own.local, config.train.global_batch_size, own.ids, own.offsets};
  Fastest of_whole(comm), of_cut(comm);
  take_turns(comm, seconds, [&](int64_t t) {
    of_whole.time([&] { do_step(whole, bags, t); });
    of_cut.time([&] { do_step(cut, bags, t); });
  });
  const double shards = static_cast<double>(config.model.tables.size()) * (parts - 1) / comm.size();
  return std::max(of_cut.seconds() - of_whole.seconds(), 0.0) / shards;
}

/// Twice the time of a layer, less that of the same layer with twice the samples.
double measure_operation(Communicator& comm, Ops& ops, double seconds) {
  constexpr int kCalls = 20;
  constexpr int64_t kSamples = 256, kWidth = 64;
  std::vector<float> x(2 * kSamples * kWidth, 1), w(kWidth * kWidth, 1), y(x.size());
  const std::vector<float> bias(kWidth);
  const auto layers = [&](int64_t samples) {
    for (int i = 0; i < kCalls; ++i) {
      ops.linear_forward(Matrix(x.data(), DType::kFloat32, samples, kWidth),
                         Matrix(w.data(), DType::kFloat32, kWidth, kWidth), View<const float>(bias),
                         Activation::kRelu, Matrix(y.data(), DType::kFloat32, samples, kWidth), {});
    }
  };
  Fastest of_some(comm), of_twice(comm);
  take_turns(comm, seconds, [&](int64_t) {
    of_some.time([&] { layers(kSamples); });
    of_twice.time([&] { layers(2 * kSamples); });
  });
  return std::max(2 * of_some.seconds() - of_twice.seconds(), 0.0) / kCalls;
}

}  // namespace

OverheadRates measure_overheads(Communicator& comm, const MachineShare& share, int threads,
                                double seconds) {
  const RunConfig config = config_for(comm.size(), threads);
  Surroundings s(comm, config, share);
  OverheadRates rates;
  rates.shard = measure_shards(comm, config, s, seconds);
  rates.operation = measure_operation(comm, *s.ops, seconds);
  return rates;
}

}  // namespace dlrm::bench
