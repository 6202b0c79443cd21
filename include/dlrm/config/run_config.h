#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dlrm/config/interaction_config.h"
#include "dlrm/core/activation.h"
#include "dlrm/core/dtype.h"
#include "dlrm/core/optimizer.h"
#include "dlrm/core/random.h"

namespace dlrm {

enum class Pooling : uint8_t { kSum, kMean, kMax };
enum class Precision : uint8_t { kFp32, kBf16 };
enum class DataKind : uint8_t { kHdf5, kCriteo, kParquet, kSynthetic, kReplay };
enum class InvalidId : uint8_t { kError, kDrop };
enum class Strategy : uint8_t { kAuto, kTable, kRow, kColumn, kGrid, kDataParallel };
/// kAuto is exact unless make_routed_plan() of plan/routed_plan.h says fixed.
enum class RoutingMode : uint8_t { kAuto, kExact, kFixed };
enum class CommKind : uint8_t { kAuto, kMpi, kNccl, kStaged };
enum class MemoryTier : uint8_t { kAuto, kDevice, kHost, kCached };
/// How learning rates follow the batch size.
enum class LrScaling : uint8_t { kNone, kLinear, kSqrt };
/// How learning rates fall with the steps.
enum class ScheduleType : uint8_t { kPolynomial, kCosine, kStep };
/// The metric by which evaluations are compared.
enum class BestMetric : uint8_t { kNone, kAuc, kLogLoss, kPrAuc, kGauc };
enum class DeviceKind : uint8_t { kAuto, kCpu, kCuda };

/// One bag of ids per sample, looked up in its table.
struct FeatureConfig {
  std::string name;
  int64_t hotness = 1;  ///< ids in a bag: exact, or the expected mean if the data has offsets
  Pooling pooling = Pooling::kSum;
  bool weights = false;  ///< each id has a weight, by which its row is multiplied; kSum only

  bool operator==(const FeatureConfig&) const = default;
};

/// How the rows of a table are filled before training.
struct InitConfig {
  InitType type = InitType::kUniform;
  double scale = 0;  ///< 0: the default of the type

  bool operator==(const InitConfig&) const = default;
};

struct TableConfig {
  std::string name;
  std::string group;  ///< the name in the YAML: `t` of t_0 ... t_18; otherwise equal to name
  int64_t rows = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  std::vector<FeatureConfig> features;  ///< at least one
  double l2 = -1;                       ///< penalty of its rows; -1: that of the sparse optimizer
  InitConfig init = {};

  bool is_linear = false;  ///< of the linear part: a weight for each row of a feature's table

  /// `init` with its default scale: 1/sqrt(rows) for uniform rows, 0.01 for normal ones.
  RowInit row_init() const;
  /// In a checkpoint: /tables/<name>, or /linear/<feature>, the name of such a table.
  std::string path() const { return (is_linear ? "/" : "/tables/") + name; }

  bool weighted() const;   ///< ids of a feature have weights
  bool pools_max() const;  ///< a feature is pooled by maximum, so that no rows may be cut off

  bool operator==(const TableConfig&) const = default;
};

/// One of several labels, predicted by a tower of its own.
struct TaskConfig {
  std::string name;
  double weight = 1;           ///< of its loss
  std::vector<int64_t> tower;  ///< layer widths; the last one is 1

  bool operator==(const TaskConfig&) const = default;
};

/// MLPs over the interaction's output, which every task sees by shares of its own.
struct ExpertsConfig {
  int64_t count = 0;            ///< 0: none; otherwise 2 to kMostExperts
  std::vector<int64_t> layers;  ///< widths

  bool operator==(const ExpertsConfig&) const = default;
};

/// An MLP to the logit of a label.
struct Tower {
  std::string path;  ///< of its tensors
  std::vector<int64_t> layers;
  double weight = 1;  ///< of its label's loss
};

/// A value for the hidden layers of each MLP, all but its last.
template <class T>
struct OfHiddenLayers {
  T bottom{}, top{};

  bool operator==(const OfHiddenLayers&) const = default;
};

struct ModelConfig {
  int64_t dense_features = 0;
  int64_t embedding_dim = 16;
  std::vector<int64_t> bottom_mlp;  ///< empty: no MLP. Default of the key: 512, 256, 64, 16
  std::vector<int64_t> top_mlp;
  Activation activation = Activation::kRelu;  ///< not kNone
  OfHiddenLayers<double> dropout;             ///< rates, 0 to below 1
  OfHiddenLayers<bool> layer_norm;            ///< before the activation
  InteractionConfig interaction;
  bool linear = false;
  /// The tables of the YAML. With `linear`, a table of the linear part follows for each of their
  /// features, in the features' order, which gets the feature's ids once more.
  std::vector<TableConfig> tables;
  std::vector<TaskConfig> tasks;  ///< empty: one label and the top MLP; otherwise at least two
  ExpertsConfig experts;          ///< between the interaction and the towers of tasks

  /// Appends the tables of the linear part, if there is one.
  void add_linear_tables();
  /// The model that reads samples: without the linear part.
  ModelConfig without_linear() const;
  int64_t num_features() const;     ///< over all tables
  int64_t linear_features() const;  ///< over those of the linear part
  int64_t embedding_width() const;  ///< the sum of the features' widths, over all tables
  int64_t bottom_width() const;     ///< width of X: the last of bottom_mlp, or dense_features
  /// The vectors of every feature, if the interaction needs equal widths and they differ: those
  /// of another width are then projected to projected_width(), by a matrix [projected_width(),
  /// width] a feature. Otherwise empty.
  std::vector<FeatureVectors> projected_features() const;
  /// The width of X. Without dense features, embedding_dim.
  int64_t projected_width() const;
  InteractionInputs interaction_inputs() const;  ///< without the linear part
  InteractionCost interaction_cost() const;      ///< with projections
  int64_t interaction_width() const;             ///< width of Z, the interaction's output
  int64_t tower_inputs() const;                  ///< Z's width, or that of an expert's output
  int64_t dense_parameters() const;              ///< outside of tables
  double lookups_per_sample() const;             ///< sum of the features' hotness
  bool weighted() const;                         ///< ids of a feature have weights
  /// The top MLP, or the tower of each task in order.
  std::vector<Tower> towers() const;
  int64_t num_labels() const;  ///< of a sample
  std::vector<std::string> task_names() const;

  bool operator==(const ModelConfig&) const = default;
};

struct SyntheticConfig {
  int64_t samples = 1000000;
  double alpha = 1.05;  ///< power-law exponent of the ids; 0 = uniform
  uint64_t seed = 1;

  bool operator==(const SyntheticConfig&) const = default;
};

struct DataConfig {
  DataKind source = DataKind::kHdf5;
  std::vector<std::string> train;  ///< files and folders of files, in order
  std::vector<std::string> valid;  ///< decides during training; empty: `test` does
  std::vector<std::string> test;
  std::string schema;      ///< of Parquet files: what an import takes
  std::string dictionary;  ///< likewise: what an import kept
  SyntheticConfig synthetic;
  bool shuffle = true;
  int workers = 2;
  int prefetch = 4;
  InvalidId invalid_id = InvalidId::kError;
  bool verify = true;  ///< the checksums of dataset files

  bool operator==(const DataConfig&) const = default;
};

struct ScheduleConfig {
  int64_t warmup_steps = 0;
  int64_t decay_start = 0;
  int64_t decay_steps = 0;
  double power = 2;
  ScheduleType type = ScheduleType::kPolynomial;
  double floor = 0;          ///< of cosine
  int64_t every = 0;         ///< of step, at least 1
  double step_factor = 0.5;  ///< of step

  /// The factor on the learning rate at step t, counted from 0: (t+1)/warmup, then 1, and from
  /// decay_start on, with d = min(1, (t - decay_start)/decay_steps):
  ///   polynomial  (1 - d)^power
  ///   cosine      floor + (1 - floor)·(1 + cos πd)/2
  ///   step        step_factor^⌊(t - decay_start)/every⌋
  double factor(int64_t t) const;

  bool operator==(const ScheduleConfig&) const = default;
};

struct WireConfig {
  DType forward = DType::kFloat32;
  DType backward = DType::kFloat32;
  DType dense = DType::kFloat32;

  bool operator==(const WireConfig&) const = default;
};

struct TrainConfig {
  int64_t global_batch_size = 0;  ///< 0: auto, not chosen yet (plan/batch_size.h)
  int64_t epochs = 1;             ///< 0 if steps is set
  int64_t steps = -1;             ///< -1 if epochs decides
  uint64_t seed = 1;
  Precision precision = Precision::kFp32;
  bool tf32 = true;
  bool pin_algorithms = false;
  WireConfig wire;
  OptimizerConfig dense_optimizer{OptimizerRule::kSgd, 0.1};
  OptimizerConfig sparse_optimizer{OptimizerRule::kAdagrad, 0.01};
  double clip_norm = 0;  ///< of all dense gradients; 0 = they are not clipped
  ScheduleConfig lr_schedule;
  LrScaling lr_scaling = LrScaling::kNone;
  int64_t base_batch_size = 2048;  ///< for which the learning rates are meant
  int threads = 0;
  double timeout = 300;

  /// The factor of lr_scaling on learning rates: with r = global_batch_size / base_batch_size it is
  /// 1, r or √r.
  double batch_factor() const;
  /// The factor on learning rates at step t, counted from 0: that of lr_schedule, times
  /// batch_factor().
  double lr_factor(int64_t t) const { return lr_schedule.factor(t) * batch_factor(); }

  bool operator==(const TrainConfig&) const = default;
};

struct ShardingConfig {
  Strategy strategy = Strategy::kAuto;
  std::map<std::string, Strategy> tables;  ///< by expanded table name
  std::string plan;
  std::string machine;  ///< a machine file, plan/machine.h

  bool operator==(const ShardingConfig&) const = default;
};

struct RoutingConfig {
  RoutingMode mode = RoutingMode::kAuto;
  int depth = 1;

  bool operator==(const RoutingConfig&) const = default;
};

struct CachedConfig {
  std::string fast = "10%";
  std::map<std::string, std::string> tables;  ///< fast tiers of single tables, by expanded name
  std::string middle;
  std::string backing = "ssd";
  std::string directory;
  std::string policy = "lookahead";
  int window = 0;  ///< batches whose rows are placed, the one in use included; 0: routing.depth + 1

  bool operator==(const CachedConfig&) const = default;
};

struct MemoryConfig {
  MemoryTier tier = MemoryTier::kAuto;
  std::map<std::string, MemoryTier> tables;
  std::string
      device;        ///< a size: the most of a GPU's memory that a rank plans with; empty: no limit
  std::string host;  ///< the same of the host's memory
  CachedConfig cached;

  /// The tier that the config asks for.
  MemoryTier tier_of(const std::string& table) const {
    const auto own = tables.find(table);
    return own == tables.end() ? tier : own->second;
  }
  bool operator==(const MemoryConfig&) const = default;
};

struct EvalConfig {
  int64_t every_steps = 0;
  double every_epochs = 0;  ///< at most one of both is set
  bool at_end = true;
  double stop_at_auc = 0;
  int64_t patience = 0;  ///< evaluations without a better one after which training ends; 0 = none
  std::string task;      ///< whose metrics decide; empty = the mean over the tasks
  std::string group_by;  ///< feature by whose ids AUCs are averaged (GAUC); empty = none
  std::string slice_by;  ///< feature by whose ids evaluations are divided; empty = none

  bool operator==(const EvalConfig&) const = default;
};

struct CheckpointConfig {
  std::string directory = "ckpt";
  int64_t every_steps = 0;
  bool at_end = false;
  int keep = 2;
  BestMetric keep_best = BestMetric::kNone;

  bool operator==(const CheckpointConfig&) const = default;
};

struct OutputConfig {
  std::string directory = "runs/example";
  int64_t metrics_every = 100;

  bool operator==(const OutputConfig&) const = default;
};

/// All settings of a run, checked when they are read.
struct RunConfig {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  ShardingConfig sharding;
  RoutingConfig routing;
  CommKind comm = CommKind::kAuto;
  MemoryConfig memory;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  OutputConfig output;
  DeviceKind device = DeviceKind::kAuto;

  /// True if the config asks for a cached tier.
  bool caches_tables() const;
  /// Batches that are routed ahead of the one in use: routing.depth. If tables are cached, it is
  /// memory.cached.window - 1, or routing.depth + 1 if no window is set.
  int batches_ahead() const;
  /// The type of activations, also of E and dE on the rank of the samples.
  DType compute_type() const;
  /// The types in which values are sent: those of train.wire. Gradients that are bf16 anyway are
  /// sent as bf16, unless mean pooling divides them.
  WireConfig sent_types() const;
  bool operator==(const RunConfig&) const = default;
};

/// Reads and checks a YAML file. `overrides` are "a.b.c=value" as given to --set; the value is
/// YAML. They are applied in order before the checks. a.b may name an item of a list by number or
/// name. Setting train.steps removes the file's train.epochs, and vice versa. Errors (exit code 2)
/// name the file and line, or the override. They name the key and say what would be right. For an
/// unknown key they suggest the nearest known key.
RunConfig load_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// Like load_config(), from text. Errors give `name` in place of the file name.
RunConfig parse_config(const std::string& yaml, const std::string& name,
                       const std::vector<std::string>& overrides = {});

/// The whole config as YAML, with the value of every key. Reading it back gives the same config.
std::string to_yaml(const RunConfig& config);

/// The value of a key (a.b.c) in YAML's one-line form. Throws usage_error if there is no such key.
std::string value_of(const RunConfig& config, const std::string& key);

/// Bytes of a size in a config: an absolute size, a share of `whole` (10%), or all of `whole` if
/// empty.
double size_in_bytes(const std::string& size, double whole);

/// The keys (a.b.c) at which two configs differ, except those that a resumed run may change (steps,
/// epochs, output, checkpoint, eval, sharding, routing, memory, device, comm, threads, timeout,
/// workers, prefetch, paths).
std::vector<std::string> keys_that_block_resume(const RunConfig& saved, const RunConfig& now);

}  // namespace dlrm
