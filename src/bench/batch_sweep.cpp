#include "batch_sweep.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "dlrm/core/error.h"
#include "dlrm/core/process_usage.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/gpu_use.h"
#include "dlrm/train/machine.h"
#include "dlrm/train/trainer.h"

#include "machine_text.h"
#include "memory_check.h"
#include "repeat.h"
#include "surroundings.h"

namespace dlrm::bench {
namespace {

/// Drops the samples of a batch after its first `count`.
void shorten(Batch& batch, int64_t count) {
  const int64_t before = batch.size();
  if (count >= before) return;
  const auto features = static_cast<int64_t>(batch.offsets.size() - 1) / before;
  std::vector<int64_t> ids, offsets{0};
  std::vector<float> weights;
  for (int64_t f = 0; f < features; ++f) {
    for (int64_t s = 0; s < count; ++s) {
      const auto at = static_cast<size_t>(f * before + s);
      ids.insert(ids.end(), batch.ids.begin() + batch.offsets[at],
                 batch.ids.begin() + batch.offsets[at + 1]);
      if (!batch.id_weights.empty()) {
        weights.insert(weights.end(), batch.id_weights.begin() + batch.offsets[at],
                       batch.id_weights.begin() + batch.offsets[at + 1]);
      }
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
  }
  batch.dense.resize(batch.dense.size() / static_cast<size_t>(before) * static_cast<size_t>(count));
  const auto kept = static_cast<size_t>(count), had = static_cast<size_t>(before);
  const size_t labels = batch.labels.size() / had;
  for (size_t k = 0; k < labels * kept; ++k) {
    batch.labels[k] = batch.labels[k / kept * had + k % kept];
  }
  batch.labels.resize(labels * kept);
  batch.ids = std::move(ids);
  batch.id_weights = std::move(weights);
  batch.offsets = std::move(offsets);
  batch.global_size = count;
  batch.local = {0, count};
}

std::vector<Batch> load_batches(const RunConfig& config, int64_t samples) {
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  std::vector<Batch> batches;
  for (int64_t loaded = 0; loaded < samples;) {
    Batch& batch = batches.emplace_back();
    source->load(static_cast<int64_t>(batches.size()) - 1, batch);
    shorten(batch, samples - loaded);
    loaded += batch.size();
  }
  return batches;
}

/// The memory of the batches that load_batches returns.
double bytes_of_samples(const SweepOptions& options) {
  const ModelConfig& model = options.config.model;
  const double numbers = 4.0 * static_cast<double>(model.dense_features + 1);
  const double bags =
      8.0 * (static_cast<double>(model.num_features()) + model.lookups_per_sample());
  return static_cast<double>(options.samples) * (numbers + bags);
}

/// Sums over the repeats of one batch size.
class Measurement {
 public:
  explicit Measurement(Surroundings& s)
      : surroundings_(s), gpu_(make_utilisation_probe(s.execution.device())) {}

  void begin() {
    surroundings_.trace.reset_totals();
    gpu_.begin(now_seconds());
    ticks_ = core_ticks();
    cpu_ = process_cpu_seconds();
    start_ = now_seconds();
  }

  void step_is_done() { gpu_.sample(now_seconds()); }

  void end(SweepPoint& point) {
    surroundings_.context.stream.synchronize();  // so that the last update counts
    point.seconds.push_back(now_seconds() - start_);
    cpu_total_ += process_cpu_seconds() - cpu_;
    add_ticks_between(ticks_, core_ticks(), cores_);
    for (const auto& total : surroundings_.trace.totals()) {
      point.stages_ms[total.name] += static_cast<double>(total.ns) * 1e-6;
    }
    point.resident_bytes = resident_bytes();
  }

  void finish(SweepPoint& point) const {
    double elapsed = 0;
    for (const double s : point.seconds) elapsed += s;
    point.process_utilization = cpu_total_ / (elapsed * surroundings_.threads);
    for (const CoreTicks& core : cores_) {
      const auto total = static_cast<double>(std::max<int64_t>(core.total, 1));
      point.core_utilization.push_back(static_cast<double>(core.busy) / total);
    }
    const auto steps = static_cast<double>(point.steps) * static_cast<double>(point.seconds.size());
    for (auto& [name, ms] : point.stages_ms) ms /= steps;
    point.gpu = gpu_.mean();
  }

 private:
  Surroundings& surroundings_;
  GpuUse gpu_;
  std::vector<CoreTicks> ticks_, cores_;
  double cpu_ = 0, start_ = 0, cpu_total_ = 0;
};

/// One pass over the batches. Ids are routed ahead.
template <class AfterStep>
void train_on(const std::vector<Batch>& batches, Trainer& trainer, int64_t first_step,
              AfterStep after_step) {
  size_t routed = 0;
  const NextBatch next = [&] { return routed < batches.size() ? &batches[routed++] : nullptr; };
  for (size_t step = 0; step < batches.size(); ++step) {
    trainer.step(first_step + static_cast<int64_t>(step), false, next);
    after_step();
  }
}

/// Untimed passes. The last one launches as many steps as graphs as the pass before it.
void warm_up(const std::vector<Batch>& batches, Trainer& trainer, int depth) {
  int64_t launched_before = 0, steady = -1;
  for (int pass = 0; pass < 2 * (depth + 1) + 1; ++pass) {
    train_on(batches, trainer, 1, [] {});
    const int64_t launched = trainer.steps_replayed() - launched_before;
    launched_before = trainer.steps_replayed();
    if (launched > 0 && launched == steady) return;
    steady = launched;
  }
}

SweepPoint sweep_point(Surroundings& s, RunConfig config, const SweepOptions& options,
                       int64_t batch) {
  config.train.global_batch_size = batch;
  const std::vector<Batch> batches = load_batches(config, options.samples);
  const Plan plan = make_plan(config, 1, s.execution.plan_options());
  const int depth = config.batches_ahead();
  const bool records = s.execution.device().can_capture();
  SweepPoint point;
  point.batch = batch;
  point.steps = static_cast<int64_t>(batches.size());
  Measurement measurement(s);
  std::unique_ptr<Trainer> trainer;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    if (!records || !trainer) {
      trainer.reset();
      trainer = std::make_unique<Trainer>(s.context, *s.ops, config, plan, true);
      trainer->use_graphs(true);
      if (records) {
        warm_up(batches, *trainer, depth);
      } else {
        train_on({batches.front()}, *trainer, 0, [] {});
      }
    }
    if (records) trainer->initialise();
    const int64_t launched = trainer->steps_replayed();
    measurement.begin();
    train_on(batches, *trainer, 1, [&] { measurement.step_is_done(); });
    measurement.end(point);
    point.recorded_steps = trainer->steps_replayed() - launched;
  }
  point.asynchronous = s.execution.device().asynchronous();
  measurement.finish(point);
  return point;
}

}  // namespace

bool moves_data(const std::string& stage) {
  constexpr std::array kMoving{"data", "route", "lookup", "return", "allreduce"};
  return std::find(kMoving.begin(), kMoving.end(), stage) != kMoving.end();
}

std::optional<double> SweepPoint::moving_share() const {
  if (asynchronous) return std::nullopt;
  double moving = 0, all = 0;
  for (const auto& [name, ms] : stages_ms) {
    all += ms;
    if (moves_data(name)) moving += ms;
  }
  return all > 0 ? moving / all : 0;
}

Spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  Spread s;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) s.mean += v / n;
  double squares = 0;
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  s.deviation = values.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  s.least = *std::min_element(values.begin(), values.end());
  s.most = *std::max_element(values.begin(), values.end());
  return s;
}

SweepResult run_batch_sweep(Communicator& comm, const SweepOptions& options) {
  const MachineShare share = machine_share(comm);
  check_memory("--samples", bytes_of_samples(options), share.memory_bytes);
  Surroundings s(comm, options.config, share);
  SweepResult result;
  result.threads = s.threads;
  result.device = s.execution.device().describe();
  for (const int64_t batch : options.batches) {
    s.log.info("batch {}: {} times {} samples", batch, options.repeats, options.samples);
    result.points.push_back(sweep_point(s, options.config, options, batch));
  }
  return result;
}

}  // namespace dlrm::bench
