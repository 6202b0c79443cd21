// The time of one core for the ids of a rank's samples, if GPUs exchange ids: packing them, on any
// thread, and routing them, on the thread that queues steps. Runs on an emulated GPU as one rank,
// on which nothing is exchanged.
//
//     ninja -C build/simt route_time
//     build/simt/bin/route_time CONFIG SAMPLES
//
// Tables are narrow and have few rows. Those of fewer than 7,000 rows are data-parallel, and that
// with the most ids is cut into five row shards. The time of routing includes that of the
// emulator's copy of the ids to the device, which an engine of a GPU makes beside the host.
#include <ctime>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/traffic.h"

#include "embedding/routing/packed_ids.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

constexpr int kRounds = 60, kWarm = 10;
constexpr int64_t kMostRows = 400000, kDataParallelRows = 7000, kWidth = 4;
constexpr int kRowShards = 5;

double core_ms(const std::function<void()>& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  };
  const double begin = now();
  work();
  return now() - begin;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

Plan plan_of_one(Tables& tables) {
  const auto hottest = std::max_element(
      tables.begin(), tables.end(),
      [](const TableConfig& a, const TableConfig& b) { return hotness_of(a) < hotness_of(b); });
  Plan plan;
  for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
    TableConfig& table = tables[static_cast<size_t>(t)];
    const bool copied = table.rows < kDataParallelRows;
    table.rows = std::min(table.rows, kMostRows);
    table.dim = kWidth;
    if (copied) plan.data_parallel.push_back(t);
    for (int part = 0, parts = &table == &*hottest ? kRowShards : 1; !copied && part < parts;
         ++part) {
      plan.shards.push_back({t, part_of(table.rows, part, parts), {0, kWidth}, 0});
    }
  }
  return plan;
}

void measure(Tables tables, int64_t samples) {
  const Plan plan = plan_of_one(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  options.routing.mode = RoutingMode::kFixed;
  options.max_global_batch = samples;
  const MadeUpBags bags(tables, /*variable=*/false);
  std::vector<int64_t> ids, offsets;
  bags.fill(0, 0, samples, ids, offsets);
  const LocalBags all{{0, samples}, samples, ids, offsets};
  run_on_threads(1, [&](Communicator& comm) {
    Rank rank(comm, OnGpu{/*nccl=*/true});
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    embeddings.keep_sizes();
    std::shared_ptr<PackedIds> packed;
    std::vector<double> packing, routing;
    for (int i = 0; i < kRounds + kWarm; ++i) {
      rank.stream->synchronize();
      packing.push_back(core_ms([&] { embeddings.pack(all, packed); }));
      routing.push_back(core_ms([&] {
        embeddings.route(all, packed.get());
        embeddings.await_ids();
      }));
      rank.stream->synchronize();
      embeddings.drop();
      if (i < kWarm) packing.clear(), routing.clear();
    }
    fmt::print("{} ids: packed in {:.2f} ms, routed in {:.2f} ms\n", ids.size(), median(packing),
               median(routing));
  });
}

}  // namespace
}  // namespace dlrm::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: route_time CONFIG SAMPLES\n");
    return 2;
  }
  dlrm::testing::measure(dlrm::load_config(argv[1]).model.tables, std::atoll(argv[2]));
}
