#include "cache.h"

#include <algorithm>
#include <cmath>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/process_usage.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/local_bags.h"
#include "dlrm/train/session.h"
#include "dlrm/train/trainer.h"

#include "repeat.h"
#include "surroundings.h"

namespace dlrm::bench {
namespace {

/// Batches of the stream, a part of about `ids` ids at a time. Parts are loaded while no clock
/// runs.
class Stream {
 public:
  Stream(const RunConfig& config, double ids)
      : source_(make_batch_source(config, Split::kTrain, 0, 1)) {
    const double lookups = config.model.lookups_per_sample() * source_->plan().batch_size;
    batches_.resize(static_cast<size_t>(std::clamp(ids / lookups, 8.0, 1000.0)));
  }

  const std::vector<Batch>& next_part() {
    for (Batch& batch : batches_) source_->load(next_++, batch);
    return batches_;
  }

 private:
  std::unique_ptr<BatchSource> source_;
  std::vector<Batch> batches_;
  int64_t next_ = 0;
};

/// A step of training, or the part of it that touches tables.
class Training {
 public:
  Training(Surroundings& s, const RunConfig& config, bool whole_step)
      : s_(s),
        config_(config),
        trainer_(s.context, *s.ops, config, make_plan(config, 1, s.execution.plan_options()), true),
        whole_step_(whole_step) {}

  Trainer& trainer() { return trainer_; }

  void run(const std::vector<Batch>& batches) {
    whole_step_ ? run_steps(batches) : run_tables(batches);
    s_.context.stream.synchronize();
  }

 private:
  void run_steps(const std::vector<Batch>& batches) {
    size_t routed = 0;
    const NextBatch next = [&] { return routed < batches.size() ? &batches[routed++] : nullptr; };
    for (size_t i = 0; i < batches.size(); ++i) {
      trainer_.step(step_++, false, next);
    }
  }

  void run_tables(const std::vector<Batch>& batches) {
    ShardedEmbeddings& tables = trainer_.embeddings();
    size_t routed = 0;
    for (size_t i = 0; i < batches.size(); ++i) {
      for (; routed < batches.size() && tables.in_flight() <= config_.batches_ahead(); ++routed) {
        const Batch& batch = batches[routed];
        tables.route(bags_of(batch));
      }
      tables.await_ids();
      tables.prepare_ids();
      tables.lookup();
      tables.start_return();
      tables.finish_return();
      fill(tables.gradient());
      tables.start_backward();
      tables.update(1e-3, step_++);
    }
  }

  /// Writes small values, unless they are there already.
  void fill(const Matrix& gradient) {
    const auto size = static_cast<size_t>(gradient.rows * gradient.cols);
    if (size <= filled_ && gradient.data == gradient_) return;
    const std::vector<float> values(size, 1e-4f);
    Array<float> on_device(s_.context.device, size, "gradients");
    s_.context.device.copy(on_device.data(), values.data(), size * sizeof(float),
                           s_.context.stream);
    s_.ops->convert(MatrixView<float>(on_device.data(), gradient.rows, gradient.cols), gradient);
    s_.context.stream.synchronize();
    gradient_ = gradient.data;
    filled_ = size;
  }

  Surroundings& s_;
  const RunConfig& config_;
  Trainer trainer_;
  const bool whole_step_;
  int64_t step_ = 0;
  const void* gradient_ = nullptr;
  size_t filled_ = 0;
};

/// Writes every row, so that none comes from the generator.
void write_all_rows(Trainer& trainer) {
  constexpr int64_t kValues = 1 << 22;
  std::vector<float> values;
  for (const TensorShard& shard : trainer.shards()) {
    const bool of_rows = shard.path.starts_with("/tables/") || shard.path.starts_with("/linear/");
    if (!of_rows || !shard.path.ends_with("/weight")) continue;
    const int64_t rows = std::max<int64_t>(kValues / shard.columns.size(), 1);
    values.resize(static_cast<size_t>(rows * shard.columns.size()));
    for (int64_t r = 0; r < shard.rows.size(); r += rows) {
      const int64_t count = std::min(rows, shard.rows.size() - r);
      shard.read(r, count, values.data());
      shard.write(r, count, values.data());
    }
  }
}

void run_timed(Training& training, const std::vector<Batch>& part, CacheSpeed& speed) {
  const double begin = now_seconds(), cpu_begin = process_cpu_seconds();
  training.run(part);
  speed.seconds += now_seconds() - begin;
  speed.cpu_seconds += process_cpu_seconds() - cpu_begin;
  speed.steps += std::ssize(part);
  for (const Batch& batch : part) speed.samples += batch.size();
}

void measure(const CacheOptions& options, const RunConfig& config, Surroundings& s,
             Training& resident, CachePoint& point) {
  Training training(s, config, options.whole_step);
  write_all_rows(training.trainer());
  // The first batches of a turn wait for their rows, so a turn has hundreds of steps.
  Stream stream(config, options.whole_step ? 1 << 23 : 1 << 25);
  resident.run(stream.next_part());
  for (CacheSpeed warm; warm.seconds < options.warm_up;) {
    run_timed(training, stream.next_part(), warm);
  }
  const auto counters = [&] {  // none if a slot for each row leaves no table to move
    return training.trainer().embeddings().cache_counters().value_or(CacheCounters());
  };
  const CacheCounters before = counters();
  while (point.speed.seconds < options.seconds || point.speed.steps == 0) {
    const std::vector<Batch>& part = stream.next_part();
    run_timed(resident, part, point.resident);
    run_timed(training, part, point.speed);
  }
  point.cache = counters() - before;
}

void add(CacheSpeed& sum, const CacheSpeed& speed) {
  sum.steps += speed.steps;
  sum.samples += speed.samples;
  sum.seconds += speed.seconds;
  sum.cpu_seconds += speed.cpu_seconds;
}

/// Bytes of a record of the table with most bytes.
int64_t largest_record(const RunConfig& config) {
  const OptimizerTraits& optimizer = traits_of(config.train.sparse_optimizer.type);
  int64_t most = 0, record = 0;
  for (const TableConfig& table : config.model.tables) {
    const auto state = static_cast<int64_t>(sizeof(float)) * optimizer.state_count() *
                       (optimizer.rowwise() ? 1 : table.dim);
    const int64_t bytes = table.dim * static_cast<int64_t>(size_of(table.dtype)) + state;
    if (bytes * table.rows > most) record = bytes;
    most = std::max(most, bytes * table.rows);
  }
  return record;
}

AccessCounts count_accesses(const RunConfig& config) {
  std::vector<std::vector<uint32_t>> counts;  // by table
  for (const TableConfig& table : config.model.tables) {
    counts.emplace_back(static_cast<size_t>(table.rows));
  }
  Stream stream(config, 1 << 23);
  for (int part = 0; part < 8; ++part) {
    for (const Batch& batch : stream.next_part()) {
      size_t f = 0;
      for (size_t t = 0; t < counts.size(); ++t) {
        for (size_t i = 0; i < config.model.tables[t].features.size(); ++i, ++f) {
          const auto b = static_cast<size_t>(batch.size());
          for (int64_t k = batch.offsets[f * b]; k < batch.offsets[(f + 1) * b]; ++k) {
            ++counts[t][static_cast<size_t>(batch.ids[static_cast<size_t>(k)])];
          }
        }
      }
    }
  }
  AccessCounts result;
  std::vector<uint32_t> accessed;
  for (const auto& table : counts) {
    result.entries += static_cast<int64_t>(table.size());
    for (const uint32_t n : table) {
      if (n > 0) accessed.push_back(n);
      result.accesses += n;
    }
  }
  std::sort(accessed.begin(), accessed.end(), std::greater<>());
  for (double exponent = -5; exponent <= 0; exponent += 0.5) {
    const double fraction = std::pow(10.0, exponent);
    const auto most =
        static_cast<size_t>(std::llround(fraction * static_cast<double>(result.entries)));
    double sum = 0;
    for (size_t i = 0; i < std::min(most, accessed.size()); ++i) sum += accessed[i];
    result.fractions.push_back(fraction);
    result.shares.push_back(sum / static_cast<double>(result.accesses));
  }
  return result;
}

/// The limits of the point's speed.
void add_limits(CachePoint& point, const RecordRate& ssd, int64_t record_bytes,
                const Surroundings& s) {
  const auto steps = static_cast<double>(point.speed.steps);
  const auto resident_steps = static_cast<double>(point.resident.steps);
  const double resident_step = point.resident.seconds / resident_steps;
  const double reads = static_cast<double>(point.cache.reads) / steps;
  const double step = std::max(resident_step, reads / ssd.rows_read);
  point.limit = resident_step / step;
  if (!s.context.device.host_visible_memory()) return;
  const double writes =
      static_cast<double>(point.cache.written_bytes) / static_cast<double>(record_bytes) / steps;
  const double cpu_seconds = point.resident.cpu_seconds / resident_steps +
                             reads * ssd.read_cpu_seconds + writes * ssd.write_cpu_seconds;
  point.cpu_limit = resident_step / std::max(step, cpu_seconds / usable_cpus());
}

std::string chain_of(const CachedConfig& cached, bool on_gpu) {
  return fmt::format("{}{} over {}", on_gpu ? "GPU" : "host",
                     cached.middle.empty() ? "" : " over host",
                     cached.backing == "ssd" ? "SSD" : "host");
}

}  // namespace

CacheResult run_cache(Communicator& comm, const CacheOptions& options) {
  Surroundings s(comm, options.config, machine_share(comm));
  CacheResult result;
  result.threads = s.threads;
  result.chain = chain_of(options.config.memory.cached, !s.context.device.host_visible_memory());
  result.accesses = count_accesses(options.config);
  RunConfig config = options.config;
  config.memory.tier = MemoryTier::kDevice;
  config.memory.tables.clear();
  CachePoint resident;
  const RankMemory whole = rank_memory(config, make_plan(config, 1, s.execution.plan_options()))[0];
  result.table_bytes = resident.fast_bytes = whole.tables + whole.optimizer_state;
  const RunConfig resident_config = config;
  Training in_turn(s, resident_config, options.whole_step);
  result.points.push_back(resident);
  const bool on_ssd = options.config.memory.cached.backing == "ssd";
  const int64_t record_bytes = largest_record(options.config);
  if (on_ssd) {
    constexpr double kMostBytes = 0x1p30, kMostSeconds = 5;
    result.ssd = measure_ssd(embedding_options(options.config).cached.directory, record_bytes,
                             static_cast<int64_t>(std::min(kMostBytes, result.table_bytes)),
                             std::min(kMostSeconds, options.seconds));
  }
  config.memory.tier = MemoryTier::kCached;
  for (const std::string& policy : options.policies) {
    for (const double share : options.shares) {
      CachePoint point;
      point.policy = config.memory.cached.policy = policy;
      point.share = share;
      config.memory.cached.fast = fmt::format("{}%", share);
      s.log.info(
          "{}, {} of the tables in fast memory: {} s, and as many batches with resident tables",
          policy, config.memory.cached.fast, options.seconds);
      const Plan plan = make_plan(config, 1, s.execution.plan_options());
      point.fast_bytes = rank_memory(config, plan)[0].cache;
      measure(options, config, s, in_turn, point);
      if (on_ssd) add_limits(point, result.ssd, record_bytes, s);
      add(result.points.front().speed, point.resident);
      result.points.push_back(point);
    }
  }
  result.points.front().resident = result.points.front().speed;
  return result;
}

}  // namespace dlrm::bench
