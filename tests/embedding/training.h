#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/context.h"
#include "dlrm/comm/thread_comm.h"
#include "dlrm/device/transfer.h"
#include "dlrm/embedding/sharded_embeddings.h"

#include "comm/device/nccl_comm.h"
#include "comm/device/staged_comm.h"
#include "error_of.h"
#include "guarded_device.h"
#include "plain_tables.h"
#include "plans.h"

namespace dlrm::testing {

inline TableConfig table_of(const std::string& name, int64_t rows, int64_t dim,
                            const std::vector<int64_t>& hotness, Pooling pooling) {
  TableConfig table;
  table.name = table.group = name;
  table.rows = rows;
  table.dim = dim;
  for (const int64_t h : hotness) {
    table.features.push_back({name + "_" + std::to_string(table.features.size()), h, pooling});
  }
  return table;
}

/// Tables of unusual shapes: fewer rows than ranks, one row of width 1, widths that no number of
/// ranks divides, features that share a table, bags with repeated ids.
inline Tables odd_tables(Pooling pooling) {
  return {table_of("plain", 37, 5, {1}, pooling), table_of("shared", 101, 7, {1, 4, 2}, pooling),
          table_of("tiny", 2, 3, {2}, pooling),   table_of("wide", 11, 18, {3}, pooling),
          table_of("one", 1, 1, {1}, pooling),    table_of("long", 2000, 4, {2, 5}, pooling)};
}

/// The same, where the ids of every other feature have weights.
inline Tables weighted_tables() {
  Tables tables = odd_tables(Pooling::kSum);
  bool weighted = false;
  for (TableConfig& table : tables) {
    for (FeatureConfig& feature : table.features) feature.weights = weighted = !weighted;
  }
  return tables;
}

/// The same, where every other feature has max pooling, and the others have sums.
inline Tables max_tables() {
  Tables tables = odd_tables(Pooling::kSum);
  bool max = false;
  for (TableConfig& table : tables) {
    for (FeatureConfig& feature : table.features) {
      max = !max;
      if (max) feature.pooling = Pooling::kMax;
    }
  }
  return tables;
}

/// Awaits the ids of a batch that all ranks refuse. Calls seen(error), and throws it again once all
/// ranks have seen theirs: ranks give up an exchange that others never start only while an error
/// is thrown.
template <class Seen>
void await_refusal(ShardedEmbeddings& embeddings, Communicator& comm, const Seen& seen) {
  try {
    embeddings.await_ids();
    ADD_FAILURE() << "no batch was refused";
  } catch (const RowsDoNotFit& refused) {
    seen(refused);
    comm.barrier();
    throw;
  }
  comm.barrier();
}

inline EmbeddingOptions options_for(const Tables& tables, OptimizerRule optimizer) {
  EmbeddingOptions options;
  options.tables = tables;
  options.optimizer.type = optimizer;
  options.optimizer.lr = 0.05;
  options.optimizer.initial_accumulator = 0.01;
  options.optimizer.eps = traits_of(optimizer).eps;
  options.optimizer.l1 = 0.02;
  options.optimizer.l2 = 0.1;
  options.seed = 7;
  options.cached.backing = "host";
  options.max_global_batch = 64;
  return options;
}

/// A rank of a test on a GPU instead of a CPU.
struct OnGpu {
  bool nccl = false;  ///< vectors do not pass through the host
};

/// A rank of a test: its device, operations and context.
struct Rank {
  /// `threads`: 0 for the reference, otherwise the number of threads of the CPU execution.
  explicit Rank(Communicator& comm, int threads = 0)
      : device(make_guarded_device(64)),
        stream(device->make_stream()),
        log(comm.rank()),
        context{*device, *stream, comm, trace, log},
        ops(threads == 0 ? make_reference_ops(*device, *stream)
                         : make_cpu_ops(*device, *stream, threads)) {}
  Rank(Communicator& comm, OnGpu on)
      : device(make_cuda_device(0)),
        stream(device->make_stream()),
        log(comm.rank()),
        gpu_comm(on.nccl ? comm::make_nccl_comm(comm, *device)
                         : comm::make_staged_comm(comm, *device)),
        context{*device, *stream, comm, trace, log, gpu_comm.get()},
        ops(make_cuda_ops(*device, *stream, CudaOpsOptions())) {}

  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  Trace trace;
  Log log;
  std::unique_ptr<Communicator> gpu_comm;
  Context context;
  std::unique_ptr<Ops> ops;
};

/// The rows of a matrix in the device's memory.
inline std::vector<float> values_of(const Context& context, MatrixView<const float> m) {
  std::vector<float> values(static_cast<size_t>(m.rows * m.cols));
  Transfer(context.device, context.stream)
      .read_rows(m.data, m.stride, m.rows, m.cols, values.data());
  return values;
}

inline void route(ShardedEmbeddings& embeddings, const Communicator& comm, const MadeUpBags& bags,
                  int64_t step, int64_t samples) {
  const Range local = part_of(samples, comm.rank(), comm.size());
  std::vector<int64_t> ids, offsets;
  bags.fill(step, local.begin, local.end, ids, offsets);
  const std::vector<float> weights = bags.weights(step, local.begin, local.end);
  embeddings.route({local, samples, ids, offsets, 0, weights});
}

/// Polls until the exchanges have probably ended, and after that.
inline void poll_often(ShardedEmbeddings& embeddings) {
  for (int i = 0; i < 30; ++i) {
    embeddings.poll();
    std::this_thread::yield();
  }
}

/// Completes a training step with the generated gradient.
inline void train(ShardedEmbeddings& embeddings, const Context& context, int64_t step,
                  int64_t samples, double lr) {
  const Range local = part_of(samples, context.comm.rank(), context.comm.size());
  embeddings.await_ids();
  embeddings.prepare_ids();
  embeddings.lookup();
  embeddings.start_return();
  poll_often(embeddings);
  embeddings.sort_ids();
  std::vector<float> values = values_of(context, embeddings.finish_return().f32());
  for (int64_t i = 0; i < local.size(); ++i) {
    for (int64_t c = 0; c < embeddings.width(); ++c) {
      float& value = values[static_cast<size_t>(i * embeddings.width() + c)];
      value = static_cast<float>(made_up_gradient(step, local.begin + i, c, value));
    }
  }
  const MatrixView<float> de = embeddings.gradient().f32();
  Transfer(context.device, context.stream)
      .write_rows(de.data, de.stride, de.rows, de.cols, values.data());
  embeddings.start_backward();
  poll_often(embeddings);
  embeddings.update(lr, step);
}

/// All values of a shard, row by row.
inline std::vector<float> values_of(const TensorShard& shard) {
  std::vector<float> values(static_cast<size_t>(shard.rows.size() * shard.columns.size()));
  shard.read(0, shard.rows.size(), values.data());
  return values;
}

/// Whole tensors by path, assembled from the parts that each rank would save.
using Tensors = std::map<std::string, std::vector<float>>;

inline Tensors gather(Communicator& comm, ShardedEmbeddings& embeddings) {
  Tensors tensors;
  for (const TensorShard& shard : embeddings.shards()) {
    int64_t size = 1;
    for (const int64_t n : shard.shape) size *= n;
    std::vector<float>& whole = tensors[shard.path];
    whole.resize(static_cast<size_t>(size), 0);
    if (!shard.saves) continue;
    const int64_t columns = shard.shape.size() == 2 ? shard.shape[1] : 1;
    const std::vector<float> values = values_of(shard);
    size_t next = 0;
    for (int64_t r = shard.rows.begin; r < shard.rows.end; ++r) {
      for (int64_t c = shard.columns.begin; c < shard.columns.end; ++c) {
        whole[static_cast<size_t>(r * columns + c)] += values[next++];
      }
    }
  }
  // A rank without a shard of a table has no array for it. Therefore the paths of all ranks are
  // combined.
  std::string mine;
  for (const auto& [path, values] : tensors) {
    mine += path + " " + std::to_string(values.size()) + "\n";
  }
  const std::vector<char> all = comm.allgatherv<char>(View<const char>(mine.data(), mine.size()));
  std::string line;
  for (const char letter : all) {
    if (letter != '\n') {
      line += letter;
      continue;
    }
    const size_t space = line.find(' ');
    tensors[line.substr(0, space)].resize(std::stoul(line.substr(space + 1)), 0);
    line.clear();
  }
  for (auto& [path, values] : tensors) comm.allreduce<float>(View<float>(values));
  return tensors;
}

/// Trains batches of these sizes in turn, on a CPU or a GPU. Returns the whole tensors at the end.
inline Tensors train_all(const Plan& plan, const EmbeddingOptions& options, const MadeUpBags& bags,
                         const std::vector<int64_t>& batches, int threads = 0,
                         bool keeps_sizes = false, std::optional<OnGpu> gpu = std::nullopt) {
  Tensors result;
  run_on_threads(plan.world, [&](Communicator& comm) {
    Rank rank = gpu ? Rank(comm, *gpu) : Rank(comm, threads);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    if (keeps_sizes) embeddings.keep_sizes();
    size_t routed = 0;
    for (size_t t = 0; t < batches.size(); ++t) {
      while (routed < batches.size() && embeddings.in_flight() <= options.routing.depth) {
        route(embeddings, comm, bags, static_cast<int64_t>(routed), batches[routed]);
        ++routed;
      }
      train(embeddings, rank.context, static_cast<int64_t>(t), batches[t], options.optimizer.lr);
    }
    embeddings.check_replicas();
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = tensors;
  });
  return result;
}

}  // namespace dlrm::testing
