#include "run_schema.h"

#include <algorithm>
#include <limits>

#include "names.h"

namespace dlrm {
namespace {

constexpr int64_t kMaxSteps = int64_t{1} << 53;

Schema<SyntheticConfig> synthetic_schema() {
  using S = SyntheticConfig;
  Schema<S> schema;
  schema.key("samples", &S::samples, whole_number<int64_t>(1, int64_t{1} << 53),
             "samples in an epoch");
  schema.key("alpha", &S::alpha, real_number(0, 10),
             "exponent of the ids' power law, 0 the hottest id; 0 = uniform");
  schema.key("seed", &S::seed, whole_number<uint64_t>(0, std::numeric_limits<uint64_t>::max()),
             "of the samples");
  return schema;
}

Schema<ShardingConfig> sharding_schema() {
  using S = ShardingConfig;
  Schema<S> schema;
  schema.key("strategy", &S::strategy, choice(kStrategyNames), "how tables are cut over the ranks");
  schema.key("tables", &S::tables, map_of("tables or groups", choice(kStrategyNames)),
             "overrides, as {C3: row}; a table's own one goes before its group's");
  schema.key("plan", &S::plan, optional_path(), "a plan.json to use as it is");
  return schema;
}

Schema<RoutingConfig> routing_schema() {
  using R = RoutingConfig;
  Schema<R> schema;
  schema.key("mode", &R::mode, choice(kRoutingModeNames),
             "exact: ids go to their owners; fixed: all ids to all ranks, in constant shapes");
  schema.key("depth", &R::depth, whole_number(0, 64), "batches routed ahead");
  return schema;
}

Schema<CachedConfig> cached_schema() {
  using C = CachedConfig;
  Schema<C> schema;
  schema.key("fast", &C::fast, memory_size(false), "the fast tier, or its share of the tables");
  schema.key("middle", &C::middle, memory_size(true),
             "host memory between the device and the SSD; empty = none");
  schema.key("backing", &C::backing, word({"host", "ssd"}), "where all rows lie");
  schema.key("directory", &C::directory, optional_path(), "of the SSD's files");
  schema.key("policy", &C::policy, word({"lookahead", "lru16", "static"}), "which rows stay");
  return schema;
}

Schema<MemoryConfig> memory_schema() {
  using M = MemoryConfig;
  Schema<M> schema;
  schema.key("tier", &M::tier, choice(kMemoryTierNames),
             "where tables live; on a CPU run device and host are the same");
  schema.key("tables", &M::tables, map_of("tables or groups", choice(kMemoryTierNames)),
             "overrides, as {big: host}; a table's own one goes before its group's");
  schema.key("device", &M::device, memory_size(true),
             "GPU: the most of its memory that a rank plans with; empty = what is free");
  schema.key("cached", &M::cached, section(cached_schema()), "the cached tier");
  return schema;
}

Schema<EvalConfig> eval_schema() {
  using E = EvalConfig;
  Schema<E> schema;
  schema.key("every_steps", &E::every_steps, whole_number<int64_t>(0, kMaxSteps),
             "steps between evaluations; 0 = none");
  schema.key("at_end", &E::at_end, boolean(), "evaluate after the last step");
  schema.key("stop_at_auc", &E::stop_at_auc, real_number(0, 1),
             "training ends when an evaluation reaches it; 0 = never");
  schema.key("patience", &E::patience, whole_number<int64_t>(0, 1000000),
             "training ends after so many evaluations in a row without a better one; 0 = never");
  return schema;
}

Schema<CheckpointConfig> checkpoint_schema() {
  using C = CheckpointConfig;
  Schema<C> schema;
  schema.key("directory", &C::directory, path_text(), "holds step_<9 digits> folders");
  schema.key("every_steps", &C::every_steps, whole_number<int64_t>(0, kMaxSteps),
             "steps between checkpoints; 0 = none");
  schema.key("at_end", &C::at_end, boolean(), "save after the last step");
  schema.key("keep", &C::keep, whole_number(1, 1000000), "newest checkpoints kept");
  schema.key("keep_best", &C::keep_best, choice(kBestMetricNames),
             "the checkpoint with the best evaluation is kept too, as the link best; "
             "eval.patience uses the same metric, or AUC if it is none");
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
  schema.key("comm", &R::comm, choice(kCommNames), "what moves bytes between ranks").may_change();
  schema.key("memory", &R::memory, section(memory_schema()), "").may_change();
  schema.key("eval", &R::eval, section(eval_schema()), "").may_change();
  schema.key("checkpoint", &R::checkpoint, section(checkpoint_schema()), "").may_change();
  schema.key("output", &R::output, section(output_schema()), "").may_change();
  schema.key("device", &R::device, choice(kDeviceNames), "what computes").may_change();
  return schema;
}

std::string last_segment(const std::string& key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

Schema<DataConfig> data_schema() {
  using D = DataConfig;
  Schema<D> schema;
  schema.key("source", &D::source, choice(kDataKindNames),
             "hdf5: dataset files; synthetic: made on the fly; replay: the first batch again and "
             "again");
  schema
      .key("train", &D::train, optional_path("a path"),
           "the training data: a file or a folder of files")
      .default_shown("required for hdf5")
      .may_change();
  schema
      .key("test", &D::test, optional_path(),
           "the data that evaluations read; empty = no evaluation")
      .may_change();
  schema.key("synthetic", &D::synthetic, section(synthetic_schema()), "the synthetic source");
  schema.key("shuffle", &D::shuffle, boolean(), "another order in each epoch");
  schema.key("workers", &D::workers, whole_number(1, 256), "reading threads a rank").may_change();
  schema.key("prefetch", &D::prefetch, whole_number(1, 1024), "batches read ahead").may_change();
  schema.key("invalid_id", &D::invalid_id, choice(kInvalidIdNames),
             "an id outside its table ends the run, or counts as absent");
  schema
      .key("verify", &D::verify, boolean(),
           "compare blocks of dataset files with their checksums when they are first read")
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
  std::string suggestion = dotted(path, nearest(entry.key, known));
  auto fewest = std::numeric_limits<std::ptrdiff_t>::max();
  for (const KeyDoc& row : key_docs()) {  // suggests the same word in another section
    const auto sections = std::count(row.key.begin(), row.key.end(), '.');
    if (last_segment(row.key) != entry.key || sections >= fewest) continue;
    suggestion = row.key;
    fewest = sections;
  }
  throw usage_error("{}: unknown key {}; the nearest known one is {}", entry.place.text(),
                    dotted(path, entry.key), suggestion);
}

}  // namespace dlrm
