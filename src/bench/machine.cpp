#include "machine.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <nlohmann/json.hpp>
#include <omp.h>

#include "dlrm/plan/machine.h"

#include "machine_text.h"
#include "matrix_rates.h"
#include "memory_rates.h"
#include "repeat.h"
#include "sample_rates.h"

namespace dlrm::bench {
namespace {

/// Seconds of the fastest call. All ranks make the same calls at the same time, and the slowest one
/// counts.
double fastest_together(Communicator& comm, double seconds, const std::function<void()>& call) {
  constexpr int kLeast = 4;  // the first one is not counted
  int64_t best = std::numeric_limits<int64_t>::max();
  const double end = now_seconds() + seconds;
  for (int done = 0; true; ++done) {
    char more = done < kLeast || now_seconds() < end;
    comm.broadcast(&more, 1, 0);
    if (!more) return 1e-9 * static_cast<double>(best);
    comm.barrier();
    const double begin = now_seconds();
    call();
    int64_t taken[] = {static_cast<int64_t>((now_seconds() - begin) * 1e9)};
    comm.allreduce_max(taken);
    if (done > 0) best = std::min(best, std::max<int64_t>(taken[0], 1));
  }
}

/// The least value of all ranks, rounded to a whole number.
double of_the_slowest(Communicator& comm, double rate) {
  int64_t slowest[] = {-static_cast<int64_t>(rate)};
  comm.allreduce_max(slowest);
  return static_cast<double>(-slowest[0]);
}

void measure_products(Communicator& comm, const MachineOptions& options, MachineRates& rates) {
  constexpr int64_t kSize = 1024;  // as large as the layers of most models
  constexpr int64_t kSmall = 8;    // outputs of a small layer
  constexpr int64_t kSamples = 256;
  constexpr double kGiga = 1e9;
  omp_set_num_threads(options.threads);
  comm.barrier();
  rates.fp32_products =
      of_the_slowest(comm, kGiga * onednn_sgemm_rate(kSize, options.seconds).value_or(0));
  comm.barrier();
  const double small = of_the_slowest(
      comm, kGiga * onednn_layer_rate(kSamples, kSize, kSmall, options.seconds).value_or(0));
  if (small > 0) rates.half_rate_size = kSmall * std::max(rates.fp32_products / small - 1, 0.0);
  comm.barrier();
  const double bf16 =
      of_the_slowest(comm, kGiga * onednn_bf16_rate(kSize, options.seconds).value_or(0));
  if (bf16 > 0) rates.bf16_products = bf16;
}

class Exchanges {
 public:
  Exchanges(Communicator& comm, const MachineOptions& options)
      : comm_(comm),
        options_(options),
        send_(static_cast<size_t>(options.largest)),
        receive_(static_cast<size_t>(options.largest)) {}

  /// Seconds of an all-to-all in which each rank divides `bytes` among the ranks for which
  /// `is_peer`.
  double alltoall(int64_t bytes, const std::function<bool(int)>& is_peer) {
    const auto world = static_cast<size_t>(comm_.size());
    std::vector<int64_t> blocks(world);
    int64_t peers = 0;
    for (size_t q = 0; q < world; ++q) peers += is_peer(static_cast<int>(q));
    for (size_t q = 0; q < world; ++q) {
      if (is_peer(static_cast<int>(q))) blocks[q] = bytes / std::max<int64_t>(peers, 1);
    }
    // The relation of peers is symmetric, but nodes may have different numbers of ranks.
    std::vector<int64_t> received(world);
    const std::vector<int64_t> all = comm_.allgatherv<int64_t>(View<const int64_t>(blocks));
    for (size_t q = 0; q < world; ++q) {
      received[q] = all[q * world + static_cast<size_t>(comm_.rank())];
    }
    const ExchangeLayout layout = ExchangeLayout::packed(blocks, received);
    send_.resize(std::max(send_.size(), static_cast<size_t>(layout.send_total())));
    receive_.resize(std::max(receive_.size(), static_cast<size_t>(layout.receive_total())));
    return fastest_together(comm_, options_.seconds,
                            [&] { comm_.alltoallv(send_.data(), receive_.data(), layout); });
  }

  double allgather(int64_t bytes) {
    const auto world = static_cast<size_t>(comm_.size());
    const std::vector<int64_t> sizes(world, bytes / comm_.size());
    std::vector<int64_t> offsets(world);
    for (size_t q = 1; q < world; ++q) offsets[q] = offsets[q - 1] + sizes[q - 1];
    return fastest_together(comm_, options_.seconds, [&] {
      comm_.start_allgatherv(send_.data(), receive_.data(), sizes, offsets).wait();
    });
  }

  double allreduce(int64_t bytes) {
    std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float));
    return fastest_together(comm_, options_.seconds,
                            [&] { comm_.allreduce<float>(View<float>(values)); });
  }

 private:
  Communicator& comm_;
  const MachineOptions& options_;
  std::vector<std::byte> send_, receive_;
};

/// The seconds of a collective as alpha + beta · bytes. alpha is the time of the smallest size.
nlohmann::ordered_json fitted(const std::vector<CollectiveTime>& times, const std::string& name) {
  const CollectiveTime *least = nullptr, *most = nullptr;
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const CollectiveTime& time : times) {
    if (time.name != name) continue;
    if (!least) least = &time;
    most = &time;
    points.push_back({time.bytes, time.seconds});
  }
  const double bytes = static_cast<double>(most->bytes - least->bytes);
  const double beta = std::max(most->seconds - least->seconds, 0.0) / std::max(bytes, 1.0);
  return {{"alpha_seconds", least->seconds},
          {"beta_seconds_per_byte", beta},
          {"seconds_by_bytes", points}};
}

/// The processor, and the times of collectives by size.
nlohmann::ordered_json figures_of(const MachineRates& rates) {
  nlohmann::ordered_json figures{
      {"processor", processor_name()}, {"ranks", rates.ranks}, {"nodes", rates.nodes}};
  if (rates.collectives.empty()) return figures;
  for (const char* name : {"alltoall", "allgather", "allreduce"}) {
    figures[name] = fitted(rates.collectives, name);
  }
  return figures;
}

}  // namespace

MachineRates measure_machine(Communicator& comm, const MachineShare& share,
                             const MachineOptions& options) {
  const std::vector<int> nodes = comm.nodes();
  MachineRates rates;
  rates.ranks = comm.size();
  rates.nodes = *std::max_element(nodes.begin(), nodes.end()) + 1;
  for (int node = 0; node < rates.nodes; ++node) {
    const auto ranks = static_cast<int>(std::count(nodes.begin(), nodes.end(), node));
    rates.ranks_per_node = std::max(rates.ranks_per_node, ranks);
  }
  rates.threads = options.threads;
  rates.processors = std::min(share.machine_cores, share.cores * share.ranks_here);
  rates.draw_id = measure_draws(comm, options.seconds);
  comm.barrier();
  rates.random_rows =
      of_the_slowest(comm, 1e9 * measure_random_rows(options.seconds, options.threads));
  measure_products(comm, options, rates);
  rates.overheads = measure_overheads(comm, share, options.threads, options.seconds);
  const auto embeddings = [&](double exchange_seconds, double bytes_per_second) {
    rates.embeddings = measure_embeddings(comm, share, options.threads, options.seconds,
                                          exchange_seconds, 1 / bytes_per_second);
  };
  if (rates.ranks < 2) {
    embeddings(0, 1);
    return rates;
  }

  const int here = nodes[static_cast<size_t>(comm.rank())];
  const auto node_of = [&](int rank) { return nodes[static_cast<size_t>(rank)]; };
  Exchanges exchanges(comm, options);
  const auto most = static_cast<double>(options.largest);
  const auto on_node = [&](int q) { return q != comm.rank() && node_of(q) == here; };
  const auto elsewhere = [&](int q) { return node_of(q) != here; };
  const int64_t few = 8 * int64_t{rates.ranks};
  if (rates.ranks_per_node > 1) {
    rates.local = most / exchanges.alltoall(options.largest, on_node);
    rates.local_seconds = exchanges.alltoall(few, on_node);
  }
  if (rates.nodes > 1) {
    rates.network = most * rates.ranks_per_node / exchanges.alltoall(options.largest, elsewhere);
    rates.network_seconds = exchanges.alltoall(few, elsewhere);
  }
  // Bytes to other nodes share a card. The slower way counts.
  const double local = rates.local.value_or(std::numeric_limits<double>::infinity());
  const double network = rates.network.value_or(std::numeric_limits<double>::infinity());
  embeddings(rates.local_seconds + rates.network_seconds,
             std::min(local, network / rates.ranks_per_node));
  for (int64_t bytes = 4096; bytes <= options.largest; bytes *= 16) {
    const auto others = [&](int q) { return q != comm.rank(); };
    rates.collectives.push_back({"alltoall", bytes, exchanges.alltoall(bytes, others)});
    rates.collectives.push_back({"allgather", bytes, exchanges.allgather(bytes)});
    rates.collectives.push_back({"allreduce", bytes, exchanges.allreduce(bytes)});
  }
  return rates;
}

std::string to_json(const MachineRates& rates) {
  const std::string measured =
      fmt::format("measured by dlrm-bench machine with {} ranks on {} node{}", rates.ranks,
                  rates.nodes, rates.nodes == 1 ? "" : "s");
  const MachineSpeed assumed;
  nlohmann::ordered_json object, sources;
  object["name"] = processor_name();
  object["device"] = "cpu";
  const auto set = [&](const char* key, double value, const std::string& source) {
    object[key] = value;
    sources[key] = source;
  };
  object["ranks_per_node"] = rates.ranks_per_node;
  sources["ranks_per_node"] = measured;
  if (rates.processors > 0) {
    object["processors_per_node"] = rates.processors;
    sources["processors_per_node"] = measured;
  }
  if (rates.threads > 0) {
    object["threads_per_rank"] = rates.threads;
    sources["threads_per_rank"] = measured;
  }
  set("memory_bytes_per_second", rates.random_rows,
      measured + ": random rows of 256 bytes, by the slowest rank while all read");
  set("local_bytes_per_second", rates.local.value_or(rates.random_rows / 4),
      rates.local ? measured + ": an all-to-all of the ranks of a node"
                  : "a quarter of the memory's rate, because no two ranks shared a node");
  set("network_bytes_per_second", rates.network.value_or(assumed.network),
      rates.network ? measured + ": an all-to-all between nodes, the bytes of a whole node"
                    : "assumed: a card of 100 Gbit/s, because there was one node");
  set("line_bytes", assumed.line, "the cache line of x86-64 processors");
  set("routing_bytes_per_id", assumed.routing_bytes_per_id,
      "count of this program's passes over 16 bytes for each id");
  if (rates.fp32_products > 0) {
    set("fp32_products_per_second", rates.fp32_products,
        measured + ": products of 1024 rows and columns, by the slowest rank while all multiply");
    set("bf16_products_per_second", rates.bf16_products.value_or(rates.fp32_products),
        rates.bf16_products ? measured + ": the same in bf16"
                            : "that of fp32, in which bf16 is computed here");
  }
  if (rates.half_rate_size > 0) {
    set("half_rate_size", rates.half_rate_size,
        measured + ": products of 256 samples with weights of 1024 rows and 8 columns");
  }
  const std::string of_id =
      measured + ": tables of 65536 rows and four columns, by the slowest rank while all work";
  const auto set_id = [&](const char* key, double seconds) {
    if (seconds > 0) set(key, seconds, of_id);
  };
  set_id("route_id_seconds", rates.embeddings.route_id);
  set_id("receive_id_seconds", rates.embeddings.receive_id);
  set_id("lookup_id_seconds", rates.embeddings.lookup_id);
  set_id("update_id_seconds", rates.embeddings.update_id);
  if (rates.overheads.shard > 0) {
    set("shard_seconds", rates.overheads.shard,
        measured +
            ": steps with 512 row shards a rank, each with an id of every rank, less those "
            "of the same ids and vectors of whole tables");
  }
  if (rates.overheads.operation > 0) {
    set("launch_seconds", rates.overheads.operation,
        measured +
            ": layers of 256 and 512 samples, extrapolated to none, by the slowest rank while "
            "all work");
  }
  if (rates.draw_id > 0) {
    set("draw_id_seconds", rates.draw_id,
        measured + ": synthetic samples of 26 ids, by one thread of the slowest rank");
  }
  if (rates.local_seconds > 0) {
    set("local_exchange_seconds", rates.local_seconds,
        measured + ": an all-to-all of a few bytes within nodes");
  }
  if (rates.network_seconds > 0) {
    set("network_exchange_seconds", rates.network_seconds,
        measured + ": an all-to-all of a few bytes between nodes");
  }
  object["sources"] = sources;
  object["measured"] = figures_of(rates);
  return object.dump(2) + "\n";
}

}  // namespace dlrm::bench
