#include "small_run.h"

#include <cmath>
#include <limits>
#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/random.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/train/trainer.h"

#include "test_rank.h"

namespace dlrm {

namespace {

/// For the linear part.
void repeat_bags(Batch& batch) {
  const std::vector<int64_t> ids = batch.ids, offsets = batch.offsets;
  batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
  const std::vector<float> weights = batch.id_weights;
  batch.id_weights.insert(batch.id_weights.end(), weights.begin(), weights.end());
  for (size_t i = 1; i < offsets.size(); ++i) batch.offsets.push_back(offsets.back() + offsets[i]);
}

}  // namespace

Batch odd_batch(const RunConfig& config, int64_t t, int rank, int world) {
  Batch batch;
  batch.t = t;
  // Each third batch is a partial one.
  batch.global_size = config.train.global_batch_size - (t % 3 == 2 ? 4 : 0);
  batch.local = part_of(batch.global_size, rank, world);
  const auto draw = [&](uint64_t what, int64_t sample, uint32_t position) {
    return philox(what, {static_cast<uint32_t>(t), static_cast<uint32_t>(sample), position, 9})[0];
  };
  for (int64_t s = batch.local.begin; s < batch.local.end; ++s) {
    for (int64_t d = 0; d < config.model.dense_features; ++d) {
      batch.dense.push_back(uniform01(draw(1, s, static_cast<uint32_t>(d))) - 0.5f);
    }
    batch.labels.push_back(draw(2, s, 0) % 3 == 0 ? 1.0f : 0.0f);
  }
  for (uint32_t label = 1; label < config.model.num_labels(); ++label) {
    for (int64_t s = batch.local.begin; s < batch.local.end; ++s) {
      constexpr float kValues[] = {0, 1, 0.25f, std::numeric_limits<float>::quiet_NaN()};
      batch.labels.push_back(kValues[draw(2, s, label) % 4]);
    }
  }
  batch.offsets = {0};
  const bool weighted = config.model.weighted();
  uint64_t feature = 100;
  for (const TableConfig& table : config.model.tables) {
    if (table.is_linear) continue;
    for (const FeatureConfig& f : table.features) {
      ++feature;
      for (int64_t s = batch.local.begin; s < batch.local.end; ++s) {
        const int64_t length = f.hotness == 1 ? 1 : draw(feature, s, 999) % (2 * f.hotness + 1);
        for (int64_t i = 0; i < length; ++i) {
          const uint32_t r = draw(feature, s, static_cast<uint32_t>(i));
          // A frequent row, the bounds, and random rows.
          const int64_t id = r % 4 == 0 ? 0 : r % 7 == 0 ? table.rows - 1 : r % table.rows;
          batch.ids.push_back(id);
          if (!weighted) continue;
          batch.id_weights.push_back(f.weights ? static_cast<float>(r % 64) / 32 - 0.5f : 1.0f);
        }
        batch.offsets.push_back(static_cast<int64_t>(batch.ids.size()));
      }
    }
  }
  if (config.model.linear) repeat_bags(batch);
  return batch;
}

namespace {

void place(std::map<std::string, std::vector<float>>& whole, const TensorShard& piece) {
  const int64_t cols = piece.shape.size() == 2 ? piece.shape[1] : 1;
  auto& tensor = whole[piece.path];
  tensor.resize(static_cast<size_t>(piece.shape[0] * cols), std::nanf(""));
  std::vector<float> part(static_cast<size_t>(piece.rows.size() * piece.columns.size()));
  piece.read(0, piece.rows.size(), part.data());
  for (int64_t r = 0; r < piece.rows.size(); ++r) {
    for (int64_t c = 0; c < piece.columns.size(); ++c) {
      tensor[static_cast<size_t>((piece.rows.begin + r) * cols + piece.columns.begin + c)] =
          part[static_cast<size_t>(r * piece.columns.size() + c)];
    }
  }
}

/// A trainer with its data and options.
class SmallRun {
 public:
  SmallRun(Context& context, Ops& ops, const RunConfig& config, const MakeBatch& make_batch,
           bool recorded, const Plan* plan)
      : context_(context),
        ops_(ops),
        config_(config),
        make_batch_(make_batch),
        plan_(plan ? *plan : make_plan(config, context.comm.size())),
        recorded_(recorded) {
    make_trainer(true);
  }

  Trainer& trainer() { return *trainer_; }

  void route_up_to(int step, int steps) {
    while (trainer_->routed() <= config_.routing.depth && step + trainer_->routed() < steps) {
      route(step + trainer_->routed());
    }
  }

  void evaluate() {
    route(7);
    std::vector<float> probabilities;
    TargetList targets;
    trainer_->infer(probabilities, targets);
  }

  void resume() {
    std::vector<std::vector<float>> saved;
    for (const TensorShard& piece : trainer_->shards()) {
      saved.emplace_back(static_cast<size_t>(piece.rows.size() * piece.columns.size()));
      piece.read(0, piece.rows.size(), saved.back().data());
    }
    launched_ += trainer_->steps_replayed();
    trainer_.reset();
    make_trainer(false);
    size_t next = 0;
    for (const TensorShard& piece : trainer_->shards()) {
      piece.write(0, piece.rows.size(), saved[next++].data());
    }
    trainer_->weights_changed();
  }

  int64_t launched() const { return launched_ + trainer_->steps_replayed(); }

 private:
  void make_trainer(bool initialise) {
    trainer_ = std::make_unique<Trainer>(context_, ops_, config_, plan_, initialise);
    trainer_->use_graphs(recorded_);
  }
  void route(int t) {
    trainer_->route(make_batch_(config_, t, context_.comm.rank(), context_.comm.size()));
  }

  Context& context_;
  Ops& ops_;
  const RunConfig& config_;
  const MakeBatch& make_batch_;
  const Plan plan_;
  const bool recorded_;
  std::unique_ptr<Trainer> trainer_;
  int64_t launched_ = 0;
};

Trained train_with(const RunConfig& config, int ranks, int steps, const MakeBatch& make_batch,
                   bool recorded, OnTheWay on_the_way, bool reference, const Plan* plan = nullptr) {
  Trained trained;
  std::mutex mutex;
  run_on_threads(ranks, [&](Communicator& comm) {
    TestRank rank(comm, config);
    Context& context = rank.context;
    if (reference) rank.ops = make_reference_ops(context.device, context.stream);
    SmallRun run(context, *rank.ops, config, make_batch, recorded, plan);
    for (int step = 0; step < steps; ++step) {
      if (step == on_the_way.evaluate) run.evaluate();
      if (step == on_the_way.resume) run.resume();
      // No batch is routed across an event.
      int end = steps;
      for (const int event : {on_the_way.evaluate, on_the_way.resume}) {
        if (event > step) end = std::min(end, event);
      }
      run.route_up_to(step, end);
      const StepResult result = run.trainer().step(step, false);
      if (comm.rank() > 0) continue;
      trained.losses.push_back(result.loss);
      trained.launches.push_back(run.launched());
      trained.memory.emplace_back(context.device.bytes_in_use(), context.device.frees());
    }
    run.trainer().embeddings().check_replicas();
    const auto sent = run.trainer().traffic();
    if (comm.rank() == 0) {
      trained.launched = run.launched();
      trained.sent = {sent.pooled, sent.gradients, sent.replicated};
    }
    const std::lock_guard lock(mutex);
    for (const TensorShard& piece : run.trainer().shards()) {
      if (piece.saves) place(trained.tensors, piece);
    }
  });
  return trained;
}

}  // namespace

Trained train_on_threads(const RunConfig& config, int ranks, int steps, bool reference,
                         bool recorded) {
  return train_with(config, ranks, steps, odd_batch, recorded, {}, reference);
}

Trained train_on_batches(const RunConfig& config, int ranks, int steps, const MakeBatch& make_batch,
                         bool reference, bool recorded) {
  return train_with(config, ranks, steps, make_batch, recorded, {}, reference);
}

Trained train_recorded(const RunConfig& config, int ranks, int steps, bool recorded,
                       OnTheWay on_the_way, const Plan* plan) {
  return train_with(config, ranks, steps, odd_batch, recorded, on_the_way, false, plan);
}

std::vector<std::string> errors_of_a_spoilt_id(const RunConfig& config, int ranks, bool inferred,
                                               int spoilt, int part) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_on_threads(ranks, [&](Communicator& comm) {
    TestRank rank(comm, config);
    Context& context = rank.context;
    Trainer trainer(context, *rank.ops, config, make_plan(config, comm.size()), true);
    trainer.route(odd_batch(config, 0, comm.rank(), comm.size()));
    trainer.embeddings().await_ids();
    std::vector<uint64_t> key;
    trainer.embeddings().append_key(key);
    HostArray<int32_t> bad(context.device, 1, "bad id");
    bad[0] = 1 << 30;
    if (comm.rank() == spoilt) {
      auto* first_id =
          reinterpret_cast<void*>(static_cast<uintptr_t>(key[4 + 4 * static_cast<size_t>(part)]));
      context.device.copy(first_id, bad.data(), sizeof(int32_t), context.stream);
    }
    try {
      std::vector<float> probabilities;
      TargetList targets;
      inferred ? trainer.infer(probabilities, targets) : void(trainer.step(0, false));
    } catch (const Error& error) {
      if (error.code() == ExitCode::kUsage) {
        errors[static_cast<size_t>(comm.rank())] = error.what();
      }
    }
  });
  return errors;
}

void expect_alike(const Trained& a, const Trained& b, double loss_tolerance,
                  double weight_tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], loss_tolerance * (1 + std::abs(b.losses[i])))
        << "step " << i + 1;
  }
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [path, values] : b.tensors) {
    const auto& mine = a.tensors.at(path);
    ASSERT_EQ(mine.size(), values.size()) << path;
    for (size_t i = 0; i < values.size(); ++i) {
      const double bound = weight_tolerance * (1 + std::abs(values[i]));
      ASSERT_FALSE(std::isnan(mine[i])) << path << " element " << i;
      ASSERT_NEAR(mine[i], values[i], bound) << path << " element " << i;
    }
  }
}

RunConfig odd_model() {
  return parse_config(R"(
model:
  dense_features: 5
  embedding_dim: 6
  bottom_mlp: [9, 6]
  top_mlp: [7, 1]
  interaction: dot
  tables:
    - {name: one, rows: 1}
    - {name: three, rows: 3, hotness: 4}
    - {name: shared, rows: 53, features: [{name: left}, {name: right, hotness: 3, pooling: mean}]}
    - {name: wide, rows: 101, hotness: 2}
    - {name: last, rows: 29, pooling: mean, hotness: 5}
data: {source: synthetic}
device: cpu
sharding: {tables: {shared: row, wide: column, last: table}}
train: {global_batch_size: 22, pin_algorithms: true, dense_optimizer: {lr: 0.1}, sparse_optimizer: {type: sgd, lr: 0.1}}
)",
                      "odd_model");
}

void shard_by(RunConfig& config, Strategy strategy) {
  config.sharding.strategy = strategy;
  if (strategy != Strategy::kAuto) config.sharding.tables.clear();
}

RunConfig adagrad_model(Strategy strategy, DeviceKind device) {
  RunConfig config = odd_model();
  shard_by(config, strategy);
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  config.device = device;
  if (device == DeviceKind::kCuda) config.comm = CommKind::kNccl;
  return config;
}

RunConfig odd_model_of_ids() {
  RunConfig config = odd_model();
  config.model.dense_features = 0;
  config.model.bottom_mlp.clear();
  return config;
}

RunConfig with_linear(RunConfig config) {
  config.model.linear = true;
  config.model.add_linear_tables();
  return config;
}

std::vector<OptimizerPair> optimizer_pairs() {
  std::vector<OptimizerPair> pairs;
  std::vector<OptimizerRule> dense_alone, sparse_alone;
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    const auto rule = static_cast<OptimizerRule>(i);
    const bool dense = kOptimizers[i].dense(), sparse = kOptimizers[i].sparse();
    if (dense && sparse) pairs.push_back({rule, rule});
    if (dense && !sparse) dense_alone.push_back(rule);
    if (sparse && !dense) sparse_alone.push_back(rule);
  }
  const auto of = [](const std::vector<OptimizerRule>& rules, size_t i) {
    return rules.empty() ? OptimizerRule::kSgd : rules[i % rules.size()];
  };
  for (size_t i = 0; i < std::max(dense_alone.size(), sparse_alone.size()); ++i) {
    pairs.push_back({of(dense_alone, i), of(sparse_alone, i)});
  }
  return pairs;
}

std::vector<InteractionConfig> other_interactions() {
  return {ConcatConfig{ConcatOrder::kDenseFirst, 4}, CrossConfig{2, 3}, CrossConfig{2, 0},
          FmConfig()};
}

std::map<std::string, RunConfig> models_of_other_layers() {
  std::map<std::string, RunConfig> all;
  std::vector<InteractionConfig> interactions = other_interactions();
  interactions.push_back(DotConfig());
  for (size_t i = 0; i < interactions.size(); ++i) {
    RunConfig with_bottom = odd_model(), without_bottom = with_bottom;
    without_bottom.model.bottom_mlp.clear();
    without_bottom.model.dense_features = without_bottom.model.embedding_dim;
    for (const auto& [name, config] : {std::pair("with_a_bottom_mlp", with_bottom),
                                       {"without_a_bottom_mlp", without_bottom},
                                       {"without_dense_features", odd_model_of_ids()}}) {
      RunConfig& c = all[fmt::format("interaction_{}_{}", i, name)] = config;
      c.model.interaction = interactions[i];
    }
  }
  for (const auto& [name, activation] : {std::pair("gelu", Activation::kGelu),
                                         {"silu", Activation::kSilu},
                                         {"sigmoid", Activation::kSigmoid},
                                         {"tanh", Activation::kTanh}}) {
    (all[name] = odd_model()).model.activation = activation;
  }
  for (const char* name : {"projected_dot", "projected_fm"}) {
    ModelConfig& model = (all[name] = odd_model()).model;
    if (std::string(name) == "projected_fm") model.interaction = FmConfig();
    model.tables[0].dim = 3;
    model.tables.back().dim = 2 * model.embedding_dim;
  }
  return all;
}

void expect_gpus_train_to(const Trained& reference, RunConfig config) {
  config.device = DeviceKind::kCuda;
  const Trained trained = train_on_threads(config, 1, 5);
  expect_alike(trained, reference, 1e-4, 1e-3);
  expect_alike(train_recorded(config, 1, 5, true), trained, 0, 0);
  config.comm = CommKind::kStaged;
  expect_alike(train_on_threads(config, 2, 5), reference, 1e-4, 1e-3);
}

void expect_same_bits_from_caches_and_after_a_stop(RunConfig config) {
  const Trained whole = train_on_threads(config, 2, 6);
  expect_alike(train_recorded(config, 2, 6, false, {.evaluate = 2, .resume = 4}), whole, 0, 0);
  config.memory.tier = MemoryTier::kCached;
  config.memory.cached.fast = "100%";
  config.memory.cached.backing = "host";
  expect_alike(train_on_threads(config, 2, 6), whole, 0, 0);
}

void expect_gpus_train_as_a_cpu(RunConfig c, int64_t steps) {
  const Trained on_cpu = train_on_threads(c, 1, steps);
  for (const DeviceKind device : gpus()) {
    c.device = device;
    expect_alike(train_on_threads(c, 1, steps), on_cpu, 1e-5, 1e-4);
    expect_alike(train_on_threads(c, 3, steps), on_cpu, 1e-5, 1e-4);
    RunConfig fixed = c;
    fixed.routing.depth = 0;
    for (TableConfig& table : fixed.model.tables) {
      for (FeatureConfig& feature : table.features) feature.hotness = 1;
    }
    const Trained recorded = train_recorded(fixed, 1, 12, true);
    EXPECT_GT(recorded.launched, 0);
    expect_alike(recorded, train_recorded(fixed, 1, 12, false), 0, 0);
  }
}

}  // namespace dlrm
