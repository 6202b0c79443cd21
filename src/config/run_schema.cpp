#include "run_schema.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"
#include "dlrm/core/nearest.h"

#include "names.h"

namespace dlrm {
namespace {

Schema<SyntheticConfig> synthetic_schema() {
  using S = SyntheticConfig;
  Schema<S> schema;
  schema.key("samples", &S::samples, whole_number<int64_t>(1, int64_t{1} << 53),
             "samples per epoch");
  schema.key("alpha", &S::alpha, real_number(0, 10),
             "exponent of the power law of the ids; id 0 is the most frequent; 0 = uniform");
  schema.key("seed", &S::seed, whole_number<uint64_t>(0, std::numeric_limits<uint64_t>::max()),
             "seed of the samples");
  return schema;
}

Schema<ShardingConfig> sharding_schema() {
  using S = ShardingConfig;
  Schema<S> schema;
  schema.key("strategy", &S::strategy, choice(kStrategyNames),
             "how tables are sharded over the ranks");
  schema.key("tables", &S::tables, map_of("tables or groups", choice(kStrategyNames)),
             "strategies of single tables, for example {C3: row}; a table overrides its group");
  schema.key("plan", &S::plan, optional_path(), "a plan.json to use unchanged");
  schema.key("machine", &S::machine, optional_path(),
             "a machine file, whose rates `auto` uses in place of those of a CPU");
  return schema;
}

Schema<RoutingConfig> routing_schema() {
  using R = RoutingConfig;
  Schema<R> schema;
  schema.key(
      "mode", &R::mode, choice(kRoutingModeNames),
      "exact: each owner receives its ids; fixed: every rank receives all ids, and GPUs that NCCL "
      "connects exchange them without their hosts; auto: on such GPUs the better "
      "one, with a plan for it; otherwise exact");
  schema.key("depth", &R::depth, whole_number(0, 64), "batches routed ahead");
  return schema;
}

Schema<CachedConfig> cached_schema() {
  using C = CachedConfig;
  Schema<C> schema;
  schema.key("fast", &C::fast, memory_size(false),
             "size of the fast tier, or its share of the tables");
  schema.key("tables", &C::tables, map_of("tables or groups", memory_size(false)),
             "fast tiers of single tables, for example {big: 20%}; the others share fast");
  schema.key("middle", &C::middle, memory_size(true),
             "host memory between the device and the SSD; empty = none");
  schema.key("backing", &C::backing, word({"host", "ssd"}), "where all rows are stored");
  schema.key("directory", &C::directory, optional_path(), "directory of the files on the SSD");
  schema.key("policy", &C::policy, word({"lookahead", "lru16", "static"}),
             "which rows stay in the fast tier");
  schema.key("window", &C::window, whole_number(0, 64),
             "batches whose rows are placed, the one in use included; 0 = routing.depth + 2");
  return schema;
}

Schema<MemoryConfig> memory_schema() {
  using M = MemoryConfig;
  Schema<M> schema;
  schema.key("tier", &M::tier, choice(kMemoryTierNames),
             "where tables are stored; on a CPU device and host are the same");
  schema.key("tables", &M::tables, map_of("tables or groups", choice(kMemoryTierNames)),
             "tiers of single tables, for example {big: host}; a table overrides its group");
  schema.key("device", &M::device, memory_size(true),
             "GPU: the most device memory that a rank may plan with; empty = all free memory");
  schema.key("host", &M::host, memory_size(true),
             "the most host memory that a rank may plan with; empty = all free memory");
  schema.key("cached", &M::cached, section(cached_schema()), "the tier cached");
  return schema;
}

Schema<EvalConfig> eval_schema() {
  using E = EvalConfig;
  Schema<E> schema;
  schema.key("every_steps", &E::every_steps, whole_number<int64_t>(0, kMaxSteps),
             "steps between evaluations; 0 = none");
  schema.key("every_epochs", &E::every_epochs, real_number(0, 1e6),
             "the same in epochs, for example 0.5; replaces every_steps; 0 = none");
  schema.key("at_end", &E::at_end, boolean(), "evaluate after the last step");
  schema.key("stop_at_auc", &E::stop_at_auc, real_number(0, 1),
             "training ends when an evaluation reaches this AUC; 0 = never");
  schema.key(
      "patience", &E::patience, whole_number<int64_t>(0, 1000000),
      "training ends after this many consecutive evaluations without an improvement; 0 = never");
  schema
      .key("task", &E::task, optional_path("the name of a task, or empty"),
           "with model.tasks: the task whose metrics are shown first and decide (stop_at_auc, "
           "patience, keep_best); empty = the mean over the tasks")
      .omit_if([](const E& eval) { return eval.task.empty(); });
  schema.key(
      "group_by", &E::group_by, optional_path("the name of a feature, or empty"),
      "a feature with one id a sample, such as a user: evaluations also report gauc, the mean "
      "of the AUCs among the samples of each of its ids");
  schema.key("slice_by", &E::slice_by, optional_path("the name of a feature, or empty"),
             "a feature with one id a sample: evaluations also report the samples of each of its "
             "most frequent ids");
  return schema;
}

Schema<CheckpointConfig> checkpoint_schema() {
  using C = CheckpointConfig;
  Schema<C> schema;
  schema.key("directory", &C::directory, path_text(), "contains the folders step_<9 digits>");
  schema.key("every_steps", &C::every_steps, whole_number<int64_t>(0, kMaxSteps),
             "steps between checkpoints; 0 = none");
  schema.key("at_end", &C::at_end, boolean(), "save after the last step");
  schema.key("keep", &C::keep, whole_number(1, 1000000),
             "number of checkpoints to keep, the newest");
  schema.key("keep_best", &C::keep_best, choice(kBestMetricNames),
             "also keep the checkpoint with the best evaluation, as the link best; "
             "eval.patience uses the same metric, or AUC if this is none");
  return schema;
}

Schema<OutputConfig> output_schema() {
  using O = OutputConfig;
  Schema<O> schema;
  schema.key("directory", &O::directory, path_text(), "the run's directory");
  schema.key("metrics_every", &O::metrics_every, whole_number<int64_t>(1, kMaxSteps),
             "steps between lines of metrics.jsonl");
  return schema;
}

Schema<RunConfig> make_run_schema() {
  using R = RunConfig;
  Schema<R> schema;
  schema.key("model", &R::model, section(model_schema()), "");
  schema.key("data", &R::data, section(data_schema()), "");
  schema.key("train", &R::train, section(train_schema()), "");
  schema.key("sharding", &R::sharding, section(sharding_schema()), "").may_change();
  schema.key("routing", &R::routing, section(routing_schema()), "").may_change();
  schema.key("comm", &R::comm, choice(kCommNames), "how ranks communicate").may_change();
  schema.key("memory", &R::memory, section(memory_schema()), "").may_change();
  schema.key("eval", &R::eval, section(eval_schema()), "").may_change();
  schema.key("checkpoint", &R::checkpoint, section(checkpoint_schema()), "").may_change();
  schema.key("output", &R::output, section(output_schema()), "").may_change();
  schema.key("device", &R::device, choice(kDeviceNames), "the device that computes").may_change();
  return schema;
}

std::string last_segment(const std::string& key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

Schema<DataConfig> data_schema() {
  using D = DataConfig;
  Schema<D> schema;
  schema.key(
      "source", &D::source, choice(kDataKindNames),
      "hdf5: dataset files; criteo: text in Criteo's format, hashed; parquet: Parquet files, "
      "by a schema; synthetic: generated during the run; replay: the first batch in every "
      "step");
  schema
      .key("train", &D::train, path_list(),
           "the training data: files and folders of files, one after the other")
      .default_shown("required for hdf5, criteo and parquet")
      .may_change();
  schema
      .key("valid", &D::valid, path_list(),
           "validation data, likewise: evaluated during training, for eval and keep_best; "
           "data.test is then evaluated once, at the end")
      .may_change();
  schema
      .key("test", &D::test, path_list(),
           "the test data, likewise; without data.valid also evaluated during training")
      .may_change();
  schema
      .key("schema", &D::schema, optional_path(),
           "the schema of Parquet files, as `dlrm-data import` takes it (docs/import.md)")
      .default_shown("required for parquet")
      .may_change();
  schema
      .key("dictionary", &D::dictionary, optional_path(),
           "the dictionaries that `dlrm-data import --dictionary` kept; required for parquet if "
           "the schema has dictionaries or standardises columns")
      .may_change();
  schema.key("synthetic", &D::synthetic, section(synthetic_schema()),
             "options of the source synthetic");
  schema.key("shuffle", &D::shuffle, boolean(), "shuffle the samples differently in each epoch");
  schema
      .key("workers", &D::workers, whole_number(0, 256),
           "reading threads per rank; 0 = the training thread reads")
      .may_change();
  schema.key("prefetch", &D::prefetch, whole_number(1, 1024), "batches read ahead").may_change();
  schema.key("invalid_id", &D::invalid_id, choice(kInvalidIdNames),
             "error: an id outside its table ends the run; drop: it is left out");
  schema
      .key("verify", &D::verify, boolean(),
           "compare each block of a dataset file with its checksums when it is first read")
      .may_change();
  return schema;
}

const Schema<RunConfig>& run_schema() {
  static const Schema<RunConfig> schema = make_run_schema();
  return schema;
}

RunConfig default_config() {
  RunConfig config;
  config.model.bottom_mlp = {512, 256, 64, 16};
  return config;
}

std::vector<KeyDoc> key_docs() {
  std::vector<KeyDoc> rows;
  run_schema().document("", default_config(), rows);
  return rows;
}

void reject_unknown(const Entry& entry, const std::string& path,
                    const std::vector<std::string>& known) {
  std::string hint = hint_for(entry.key, known, path.empty() ? "" : path + ".");
  auto fewest = std::numeric_limits<std::ptrdiff_t>::max();
  for (const KeyDoc& row : key_docs()) {  // suggests the same word in another section
    const auto sections = std::count(row.key.begin(), row.key.end(), '.');
    if (last_segment(row.key) != entry.key || sections >= fewest) continue;
    hint = "the nearest is " + row.key;
    fewest = sections;
  }
  throw usage_error("{}: unknown key {}; {}", entry.place.text(), dotted(path, entry.key), hint);
}

}  // namespace dlrm
