// Whole runs with models, plans and options drawn at random.
#include <cstdlib>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/device/device.h"

#include "small_run.h"

namespace dlrm {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }

 private:
  std::mt19937 random_;
};

/// The widths of an MLP that ends with `last`.
std::string widths(Draw& draw, int64_t last) {
  std::string text = "[";
  for (int64_t layers = draw.between(0, 2); layers > 0; --layers) {
    text += fmt::format("{}, ", draw.of({1, 3, 8, 17, 40, 70}));
  }
  return text + fmt::format("{}]", last);
}

std::string table(Draw& draw, int number, int64_t dim) {
  const int64_t rows = draw.of({1, 2, 3, 16, 29, 101, 530, 5000});
  std::string text =
      fmt::format("    - {{name: t{}, rows: {}, dim: {}, init: {{type: {}}}, features: [", number,
                  rows, dim, draw.of({"uniform", "uniform", "normal", "zero"}));
  const int64_t features = draw.of({1, 1, 1, 2, 3});
  for (int64_t f = 0; f < features; ++f) {
    text += fmt::format("{}{{name: f{}_{}, hotness: {}, pooling: {}}}", f > 0 ? ", " : "", number,
                        f, draw.of({1, 1, 2, 3, 9}), draw.of({"sum", "mean"}));
  }
  return text + "]}\n";
}

std::string optimizer(Draw& draw, bool sparse) {
  const char* type = sparse ? draw.of({"sgd", "adagrad", "rowwise_adagrad", "adam", "ftrl"})
                            : draw.of({"sgd", "adagrad", "adam", "lamb"});
  const std::string name = type;
  std::string text = fmt::format("{{type: {}, lr: {}", name, draw.of({0.003, 0.01, 0.02}));
  if (name == "adagrad" || name == "rowwise_adagrad" || name == "ftrl") {
    text += fmt::format(", initial_accumulator: {}", draw.of({0.05, 0.1, 0.7}));
  }
  if (name == "ftrl")
    text += fmt::format(", l1: {}, l2: {}", draw.of({0.0, 0.001}), draw.of({0.0, 0.1}));
  if (name == "adam" || name == "lamb") {
    text += fmt::format(", eps: 0.001, beta1: {}, beta2: {}", draw.of({0.5, 0.9}),
                        draw.of({0.9, 0.99}));
  }
  if (name == "lamb") text += fmt::format(", weight_decay: {}", draw.of({0.0, 0.01}));
  return text + "}";
}

/// A model and the options that may change a result by rounding at most.
std::string drawn_model(Draw& draw) {
  const std::string interaction = draw.of({"dot", "dot", "concat", "cross", "fm"});
  const int64_t dim = draw.of({1, 3, 4, 6, 8, 12, 16, 20, 33});
  const bool dense = draw.chance(85) || interaction == "dot", bottom = draw.chance(80);
  std::string text = "model:\n";
  text += fmt::format("  dense_features: {}\n", !dense ? 0 : bottom ? draw.between(1, 13) : dim);
  text += fmt::format("  embedding_dim: {}\n", dim);
  text += fmt::format("  bottom_mlp: {}\n", dense && bottom ? widths(draw, dim) : "[]");
  text += fmt::format("  top_mlp: {}\n", widths(draw, 1));
  text += fmt::format("  linear: {}\n", draw.chance(30));
  text += fmt::format("  activation: {}\n", draw.of({"relu", "gelu", "silu", "sigmoid", "tanh"}));
  text += fmt::format("  interaction: {}\n",
                      interaction == "cross"
                          ? fmt::format("{{type: cross, layers: {}, rank: {}}}", draw.between(1, 3),
                                        draw.of({0, 1, 5, 16, 70}))
                          : interaction);
  text += "  tables:\n";
  const int64_t tables = draw.between(1, 5);
  for (int t = 0; t < tables; ++t) {
    text += table(draw, t, draw.chance(60) ? dim : draw.of({1, 2, 5, 8, 24}));
  }
  text += "data: {source: synthetic}\ndevice: cpu\n";
  text += fmt::format(
      "train: {{global_batch_size: {}, seed: {}, pin_algorithms: true,\n"
      "  dense_optimizer: {},\n  sparse_optimizer: {},\n"
      "  lr_schedule: {{warmup_steps: {}}}}}\n",
      draw.of({6, 7, 16, 33, 64, 130}), draw.between(1, 99), optimizer(draw, false),
      optimizer(draw, true), draw.between(0, 3));
  if (!draw.chance(30)) return text;
  const std::string tasks = fmt::format(
      "  tasks: [{{name: a}}, {{name: b, weight: {}, tower: {}}}, {{name: c, tower: {}}}]\n",
      draw.of({0.25, 3.0}), widths(draw, 1), widths(draw, 1));
  const std::string experts = fmt::format("  experts: {{count: {}, layers: {}}}\n",
                                          draw.between(2, 5), widths(draw, draw.of({3, 8})));
  return text.insert(text.find("  tables:"), draw.chance(50) ? tasks + experts : tasks);
}

/// A plan, and options that change no result.
void draw_plan(Draw& draw, RunConfig& config) {
  for (const TableConfig& table : config.model.tables) {
    config.sharding.tables[table.name] =
        draw.of({Strategy::kAuto, Strategy::kTable, Strategy::kRow, Strategy::kColumn,
                 Strategy::kGrid, Strategy::kDataParallel});
  }
  config.routing.depth = static_cast<int>(draw.between(0, 3));
  config.routing.mode = draw.of({RoutingMode::kExact, RoutingMode::kFixed});
}

/// The plan with some tables in the host's memory or in a cache that holds a part of them.
Plan draw_tiers(Draw& draw, Plan plan, RunConfig& config) {
  std::vector<MemoryTier> tiers;
  for (const TableConfig& table : config.model.tables) {
    tiers.push_back(config.device == DeviceKind::kCuda && draw.chance(30) ? MemoryTier::kHost
                    : draw.chance(70)                                     ? MemoryTier::kCached
                                                                          : MemoryTier::kDevice);
    config.memory.tables[table.name] = tiers.back();
  }
  for (Shard& shard : plan.shards) shard.tier = tiers[static_cast<size_t>(shard.table)];
  for (const int table : plan.data_parallel) {
    if (tiers[static_cast<size_t>(table)] == MemoryTier::kHost) plan.host_replicas.push_back(table);
  }
  config.memory.cached.backing = "host";
  config.memory.cached.fast = "1KiB";
  config.memory.cached.policy = draw.of({"lookahead", "lru"});
  config.memory.cached.window = config.routing.depth + static_cast<int>(draw.between(1, 2));
  return plan;
}

void draw_rounding(Draw& draw, RunConfig& config) {
  config.train.precision = draw.of({Precision::kFp32, Precision::kBf16});
  const auto type = [&] { return draw.of({DType::kFloat32, DType::kBFloat16, DType::kFloat16}); };
  config.train.wire = {type(), type(), draw.of({DType::kFloat32, DType::kBFloat16})};
  for (TableConfig& table : config.model.tables) {
    table.dtype = draw.of({DType::kFloat32, DType::kBFloat16});
  }
}

constexpr int kSteps = 5;

/// All runs with DLRM_TEST_ALL.
bool draws_all() { return std::getenv("DLRM_TEST_ALL") != nullptr; }

/// Trains with the smallest fast memory that suffices, which the errors of smaller ones name.
Trained train_in_little_memory(RunConfig config, int ranks, bool recorded, OnTheWay on_the_way,
                               const Plan& plan) {
  while (true) {
    try {
      return train_recorded(config, ranks, kSteps, recorded, on_the_way, &plan);
    } catch (const Error& error) {
      const std::string text = error.what();
      const size_t begin = text.find("; ") + 2, end = text.find(" would do");
      if (end == text.npos || config.memory.cached.fast == text.substr(begin, end - begin)) throw;
      config.memory.cached.fast = text.substr(begin, end - begin);
    }
  }
}

/// A model and a plan. Each run of them is compared with the reference, and then with runs that
/// differ in what may change no result.
class DrawnRuns : public ::testing::TestWithParam<int> {
 protected:
  DrawnRuns()
      : draw_(static_cast<unsigned>(GetParam())),
        yaml_(drawn_model(draw_)),
        config_(parse_config(yaml_, "drawn")),
        ranks_(static_cast<int>(draw_.between(1, 5))) {
    draw_plan(draw_, config_);
  }

  /// Rows of other tiers, an evaluation, a new trainer and steps replayed as graphs.
  void expect_nothing_changes(const RunConfig& config, const Trained& plain) {
    const OnTheWay on_the_way{.evaluate = static_cast<int>(draw_.between(-1, kSteps - 1)),
                              .resume = static_cast<int>(draw_.between(-1, kSteps - 1))};
    expect_alike(train_recorded(config, ranks_, kSteps, draw_.chance(50), on_the_way), plain, 0, 0);
    RunConfig tiers = config;
    const Plan plan = draw_tiers(draw_, make_plan(config, ranks_), tiers);
    expect_alike(train_in_little_memory(tiers, ranks_, draw_.chance(50), on_the_way, plan), plain,
                 0, 0);
  }
  void expect_trains(DeviceKind device) {
    const Trained reference = train_on_threads(config_, 1, kSteps, true);
    RunConfig config = config_;
    config.device = device;
    if (device == DeviceKind::kCuda) config.comm = CommKind::kStaged;  // ranks may share a GPU
    const Trained plain = train_on_threads(config, ranks_, kSteps);
    expect_alike(plain, reference, 1e-4, 1e-3);
    expect_nothing_changes(config, plain);
    draw_rounding(draw_, config);
    const Trained rounded = train_on_threads(config, ranks_, kSteps);
    expect_alike(rounded, reference, 5e-2, 0.1);
    expect_nothing_changes(config, rounded);
  }

  Draw draw_;
  const std::string yaml_;
  RunConfig config_;
  const int ranks_;
};

TEST_P(DrawnRuns, TrainAsTheReference) {
  SCOPED_TRACE(yaml_);
  expect_trains(DeviceKind::kCpu);
}

TEST_P(DrawnRuns, TrainAsTheReferenceOnADevice) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU, no emulator";
  if (GetParam() >= (draws_all() ? 8 : 3)) GTEST_SKIP() << "slow in the emulator";
  SCOPED_TRACE(yaml_);
  expect_trains(DeviceKind::kCuda);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DrawnRuns, ::testing::Range(0, draws_all() ? 60 : 20));

}  // namespace
}  // namespace dlrm
