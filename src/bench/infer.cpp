#include "infer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"
#include "dlrm/core/log.h"
#include "dlrm/core/random.h"
#include "dlrm/train/checkpoint.h"

#include "memory_check.h"
#include "repeat.h"
#include "serve/batcher.h"

namespace dlrm::bench {
namespace {

using Clock = std::chrono::steady_clock;
using serve::TrainedModel;

constexpr int64_t kServedBatch = 256;  // dlrm-infer's --batch-size by default
constexpr int64_t kPool = 8192;        // different samples, so that caches do not hold all rows

/// Samples [first, first + count) of the endless series of uniform ones.
Samples draw(const ModelConfig& model, int64_t first, int64_t count) {
  const uint64_t key = stream_key(1, "dlrm-bench infer");
  Samples samples;
  samples.size = count;
  for (int64_t s = first; s < first + count; ++s) {
    uint32_t drawn = 0;
    const auto number = [&] {
      const auto words = philox(key, {static_cast<uint32_t>(s), drawn++, 0, 0});
      return uniform01(words[0], words[1]);
    };
    for (int64_t d = 0; d < model.dense_features; ++d) {
      samples.dense.push_back(static_cast<float>(number()));
    }
    for (const TableConfig& table : model.tables) {
      if (table.is_linear) continue;
      for (const FeatureConfig& feature : table.features) {
        for (int64_t k = 0; k < feature.hotness; ++k) {
          samples.ids.push_back(static_cast<int64_t>(number() * static_cast<double>(table.rows)));
        }
        samples.offsets.push_back(static_cast<int64_t>(samples.ids.size()));
        if (model.weighted()) samples.weights.resize(samples.ids.size(), 1.0f);
      }
    }
  }
  return samples;
}

/// Bytes of the largest pool of samples and of the vectors of the largest batch.
double bytes_of_samples(const ModelConfig& model, int64_t batch) {
  double width = 0;
  for (const TableConfig& table : model.tables) {
    width += static_cast<double>(table.dim) * static_cast<double>(table.features.size());
  }
  const double sample =
      4.0 * static_cast<double>(model.dense_features) +
      8.0 * (static_cast<double>(model.num_features()) + model.lookups_per_sample());
  return static_cast<double>(std::max(batch, kPool)) * sample +
         4.0 * width * static_cast<double>(batch);
}

InferPoint point_of(std::vector<double> latencies, int64_t batch, double elapsed) {
  std::sort(latencies.begin(), latencies.end());
  const auto share = [&](double p) {  // the smallest one that is at least as long as p of all
    const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(latencies.size())));
    return 1e3 * latencies[std::max<size_t>(rank, 1) - 1];
  };
  InferPoint point;
  point.calls = static_cast<int64_t>(latencies.size());
  point.samples_per_second = static_cast<double>(point.calls * batch) / elapsed;
  point.p50_ms = share(0.5);
  point.p99_ms = share(0.99);
  return point;
}

InferPoint time_batches(TrainedModel& model, const ModelConfig& config, int64_t batch,
                        double seconds) {
  constexpr int64_t kLeast = 10;  // calls
  std::vector<Samples> pool;
  const int64_t batches = std::max<int64_t>(kPool / batch, 1);
  for (int64_t i = 0; i < batches; ++i) pool.push_back(draw(config, i * batch, batch));
  std::vector<float> p(static_cast<size_t>(batch) * model.inputs().labels());
  for (size_t i = 0; i < 3; ++i) model.predict(pool[i % pool.size()], p);
  std::vector<double> latencies;
  const double start = now_seconds();
  double now = start;
  for (int64_t i = 0; i < kLeast || now < start + seconds; ++i) {
    const Samples& samples = pool[static_cast<size_t>(i % batches)];
    const double begin = now;
    model.predict(samples, p);
    now = now_seconds();
    latencies.push_back(now - begin);
  }
  return point_of(std::move(latencies), batch, now - start);
}

/// Requests of one sample at `rate` per second. A client sends the next one that is due.
InferPoint time_requests(const std::shared_ptr<TrainedModel>& model, const ModelConfig& config,
                         const InferOptions& options, double rate) {
  std::vector<Samples> pool;
  for (int64_t i = 0; i < kPool; ++i) pool.push_back(draw(config, i, 1));
  serve::Counters counters;
  serve::Batcher batcher(model, kServedBatch, std::chrono::microseconds(options.batch_wait),
                         counters);
  for (size_t i = 0; i < 3; ++i) batcher.predict(pool[i]);
  std::atomic<int64_t> sent = 0;
  std::mutex mutex;
  std::vector<double> latencies;
  std::exception_ptr failed;
  const Clock::time_point start = Clock::now();
  const auto client = [&] {
    std::vector<double> own;
    try {
      for (;;) {
        const int64_t i = sent.fetch_add(1);
        Samples samples = pool[static_cast<size_t>(i % kPool)];
        Clock::time_point due = Clock::now();
        if (std::isfinite(rate)) {
          const std::chrono::duration<double> after(static_cast<double>(i) / rate);
          if (i > 0 && after.count() >= options.seconds) break;
          due = start + std::chrono::duration_cast<Clock::duration>(after);
          std::this_thread::sleep_until(due);
        } else if (!own.empty() && due - start >= std::chrono::duration<double>(options.seconds)) {
          break;
        }
        batcher.predict(std::move(samples));
        own.push_back(std::chrono::duration<double>(Clock::now() - due).count());
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    latencies.insert(latencies.end(), own.begin(), own.end());
  };
  std::vector<std::thread> clients;
  for (int c = 0; c < options.clients; ++c) clients.push_back(background_thread(client));
  for (std::thread& thread : clients) thread.join();
  if (failed) std::rethrow_exception(failed);
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  return point_of(std::move(latencies), 1, elapsed.count());
}

}  // namespace

InferResult run_infer(const InferOptions& options) {
  const auto comm = make_self_comm();
  const auto found = find_checkpoint(*comm, options.checkpoint);
  if (!found) throw usage_error("{}: there is no checkpoint", options.checkpoint);
  const CheckpointState state = open_checkpoint(*comm, *found, /*verified=*/true);
  const ModelConfig config = parse_config(state.config, *found + "/index.h5: config").model;
  const int64_t largest = *std::max_element(options.batches.begin(), options.batches.end());
  check_memory("--batches", bytes_of_samples(config, largest), options.memory_bytes);
  InferResult result{*found, state.step, {}};
  const Log log;
  for (const std::string& tables : options.tables) {
    log.info("tables in {}", tables);
    serve::LoadOptions load;
    load.tables = serve::table_type(tables);
    load.threads = options.threads;
    load.batch_size = std::max(largest, kServedBatch);
    auto model = std::make_shared<TrainedModel>(*found, load);
    InferModel& figures = result.models.emplace_back();
    figures.tables = tables;
    figures.table_bytes = model->table_bytes();
    for (const int64_t batch : options.batches) {
      figures.batches.push_back(time_batches(*model, config, batch, options.seconds));
    }
    load.batch_size = kServedBatch;
    if (const serve::LoadOptions served = load.for_requests(); served.batches > 1) {
      model.reset();  // one at a time fits the memory
      model = std::make_shared<TrainedModel>(*found, served);
    }
    figures.served_batches = model->batches();
    for (const double rate : options.rates) {
      figures.rates.push_back(time_requests(model, config, options, rate));
    }
  }
  return result;
}

}  // namespace dlrm::bench
