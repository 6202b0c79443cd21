#include "run_setup.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/ranges.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/plan/batch_size.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {
namespace {

bool same_sharding(const ShardingConfig& a, const ShardingConfig& b) {
  return a.strategy == b.strategy && a.tables == b.tables && a.plan == b.plan;
}

RunConfig saved_config(const StartingPoint& start) {
  return parse_config(start.state.config, start.path + "/index.h5 (config)");
}

void check_resumable(const StartingPoint& start, const RunConfig& config) {
  const auto differing = keys_that_block_resume(saved_config(start), config);
  if (differing.empty()) return;
  throw usage_error(
      "{}: cannot be resumed with other values of {}; set them as they were, or use "
      "--init-from to take the weights alone",
      start.path, fmt::join(differing, ", "));
}

/// The checkpoint that `from` names, or the newest good one in it, or with `best` the best one.
std::optional<StartingPoint> start_at(Communicator& comm, const std::string& from,
                                      bool best = false) {
  const auto found = best ? find_trained(comm, from) : find_checkpoint(comm, from);
  if (!found) return std::nullopt;
  StartingPoint start;
  start.path = *found;
  start.state = open_checkpoint(comm, start.path, true);
  return start;
}

StartingPoint resume_point(Communicator& comm, const Log& log, const RunOptions& options,
                           const std::string& from) {
  auto start = start_at(comm, from);
  if (!start) {
    log.info("nothing saved in {}: starting anew", from);
    return {};
  }
  check_resumable(*start, options.config);
  if (saved_config(*start).data.train != options.config.data.train) {
    log.warn(
        "data.train is not that of {}: the run continues at sample {} of its epochs, as if the "
        "earlier samples of this data were trained; for other data from its start, use --init-from",
        start->path, start->state.samples);
  }
  start->resumed = true;
  return *start;
}

void check_text_alike(Communicator& comm, const char* what, const std::string& mine) {
  const std::string first = broadcast_text(comm, mine);
  agree(comm, [&] {
    if (mine == first) return;
    throw usage_error("{} has another {} than rank 0; all ranks need the same", rank_and_host(comm),
                      what);
  });
}

void clear_tiers(Plan& plan) {
  for (Shard& shard : plan.shards) shard.tier = MemoryTier::kDevice;
  plan.host_replicas.clear();
}

/// The batch size of the checkpoint that --resume continues; 0 without one.
int64_t resumed_batch_size(Communicator& comm, const RunOptions& options) {
  if (!options.resume || options.eval_only) return 0;
  const auto start = start_at(
      comm, options.resume->empty() ? options.config.checkpoint.directory : *options.resume);
  return start ? saved_config(*start).train.global_batch_size : 0;
}

/// The split of the data that is counted: of a training its training data.
Split counted_split(const RunOptions& options) {
  return options.eval_only ? Split::kTest : Split::kTrain;
}

std::unique_ptr<BatchSource> counted_source(const RunOptions& options, Communicator& comm) {
  RunConfig config = options.config;
  config.train.global_batch_size = 1;
  return make_batch_source(config, counted_split(options), comm.rank(), comm.size());
}

/// Logged before the run, for comparison with the summary's memory.
void say_memory(const Log& log, const RunConfig& config, const Plan& plan) {
  const auto all = rank_memory(config, plan);
  const RankMemory& most = *std::max_element(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.total() < b.total(); });
  const auto gib = [](double bytes) { return bytes / 0x1p30; };
  log.info(
      "memory: {:.2f} GiB for the fullest rank: tables {:.2f}, their optimizer state {:.2f}, all "
      "else {:.2f}",
      gib(most.total()), gib(most.tables), gib(most.optimizer_state),
      gib(most.total() - most.tables - most.optimizer_state));
  const RankMemory& host = *std::max_element(
      all.begin(), all.end(),
      [](const auto& a, const auto& b) { return a.host_total() < b.host_total(); });
  if (host.host_total() == 0) return;
  log.info(
      "memory: {:.2f} GiB of the host's for the rank with most there: tables {:.2f}, their "
      "optimizer state {:.2f}{}",
      gib(host.host_total()), gib(host.host_tables), gib(host.host_optimizer_state),
      host.host_cache > 0 ? fmt::format(", cached tables {:.2f}", gib(host.host_cache)) : "");
}

bool lies_in(const std::string& checkpoint, const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::equivalent(std::filesystem::absolute(checkpoint).parent_path(), directory,
                                     ignored);
}

}  // namespace

bool saves_checkpoints(const CheckpointConfig& config) {
  return config.every_steps > 0 || config.at_end || config.keep_best != BestMetric::kNone;
}

void check_alike(Communicator& comm, const RunOptions& options) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}{}{}{}\n", options.resume.value_or(""), options.init_from,
                  options.profile, options.predict, options.resume.has_value(), options.eval_only,
                  options.overwrite, options.check) +
      (options.records ? fmt::format("{}\n{}\n{}\n", options.records->path, options.records->format,
                                     fmt::join(options.records->keys, ","))
                       : "");
  check_text_alike(comm, "config or command line", to_yaml(options.config) + text);
}

void check_alike(Communicator& comm, const RoutedPlan& routed, const ModelConfig& model) {
  const bool fixed = routed.mode == RoutingMode::kFixed;
  check_text_alike(comm, "plan", to_json(routed.plan, model) + (fixed ? "fixed" : ""));
}

RunOptions with_batch_size(Communicator& comm, const Log& log, const RunOptions& options,
                           const PlanOptions& known, std::unique_ptr<BatchSource>& counted) {
  RunOptions resolved = options;
  RunConfig& config = resolved.config;
  if (config.train.global_batch_size == 0) {
    const int64_t saved = resumed_batch_size(comm, options);
    std::string said;
    if (saved > 0) {
      config.train.global_batch_size = saved;
      said = fmt::format("train.global_batch_size: auto is {} (of the checkpoint)\n", saved);
    } else {
      counted = counted_source(options, comm);
      const int64_t samples = counted ? counted->plan().samples : 0;
      config = with_chosen_batch(config, comm.size(), known, samples, said);
    }
    said.pop_back();  // the end of the line
    log.info("{}", said);
    check_alike(comm, resolved);
  }
  const double factor = config.train.batch_factor();
  if (config.train.lr_scaling != LrScaling::kNone) {
    log.info("learning rates are multiplied by {:g} (train.lr_scaling, a batch of {} to one of {})",
             factor, config.train.base_batch_size, config.train.global_batch_size);
  }
  return resolved;
}

Sources open_sources(Context& context, const RunOptions& options, const BatchSource* counted) {
  const auto open = [&](Split split) {
    return make_batch_source(options.config, split, context.comm.rank(), context.comm.size(),
                             split == counted_split(options) ? counted : nullptr);
  };
  Sources sources;
  if (options.records) return sources;  // they need the checkpoint
  sources.test = open(Split::kTest);
  if (options.eval_only && !sources.test) {
    throw usage_error("{}: data.test names no file to evaluate on",
                      options.predict.empty() ? "--eval-only" : "--predict");
  }
  if (!options.eval_only) {
    sources.train = open(Split::kTrain);
    sources.valid = open(Split::kValid);
    context.log.info("training on {}", sources.train->describe());
  }
  if (!sources.valid && !sources.test) context.log.info("no test data: no evaluation");
  return sources;
}

StartingPoint find_start(Communicator& comm, const Log& log, const RunOptions& options) {
  const CheckpointConfig& own = options.config.checkpoint;
  const bool resume_elsewhere = options.resume && !options.resume->empty();
  const std::string saved_in = resume_elsewhere ? *options.resume : own.directory;
  StartingPoint start;
  // With both options, the first start loads the weights, and a requeued job resumes.
  if (options.resume && !options.eval_only) start = resume_point(comm, log, options, saved_in);
  if (!start.resumed && (!options.init_from.empty() || options.eval_only)) {
    const std::string from = options.init_from.empty() ? saved_in : options.init_from;
    const auto found = start_at(comm, from, options.eval_only);
    if (!found) {
      throw usage_error(
          "{}: no checkpoint (step_*) there; --init-from=DIR or --resume=DIR names one", from);
    }
    start = *found;
  }
  if (options.eval_only) return start;
  if (saves_checkpoints(own)) check_checkpoint_folder(comm, own.directory);
  const bool continues = start.resumed && lies_in(start.path, own.directory);
  start.clears_folder = !continues && has_checkpoints(comm, own.directory);
  if (start.clears_folder && !options.overwrite) {
    throw usage_error(
        "{} holds checkpoints of an earlier run: --resume continues it, --overwrite "
        "removes them, checkpoint.directory names another place",
        own.directory);
  }
  return start;
}

RoutedPlan choose_plan(Communicator& comm, const Log& log, const RunConfig& config,
                       const StartingPoint& start, const PlanOptions& options) {
  if (start.resumed && same_sharding(saved_config(start).sharding, config.sharding)) {
    try {
      Plan plan =
          parse_plan(start.state.plan, start.path + "/index.h5 (plan)", config.model, comm.size());
      // Tiers are chosen for this run's memory, unless a plan file sets them.
      if (config.sharding.plan.empty()) clear_tiers(plan);
      choose_tiers(config, options, plan);
      return make_routed_plan(config, comm.size(), options, plan);
    } catch (const Error& error) {
      log.info("{}; the tables are placed anew", error.what());
    }
  }
  return make_routed_plan(config, comm.size(), options);
}

void check_memory(const Log& log, const RunConfig& config, const Plan& plan,
                  const PlanOptions& options) {
  bool fits = true;
  const std::string table = describe_memory(config, plan, options, &fits);
  if (fits) return;
  if (log.rank() == 0) fmt::print(stderr, "{}\n", table);
  const double device = device_budget(config, options) / 0x1p30;
  const std::string here = has_two_memories(config, options)
                               ? fmt::format("{:.2f} GiB of its GPU and {:.2f} GiB of the host",
                                             device, host_budget(config, options) / 0x1p30)
                               : fmt::format("{:.2f} GiB here", device);
  throw usage_error(
      "too little memory: a rank may use {}, and the table above says who needs what; more ranks "
      "or machines, or smaller tables, would fit",
      here);
}

PlannedRun plan_run(const Context& context, const RunConfig& config, const StartingPoint& start,
                    const PlanOptions& known) {
  Communicator& comm = context.comm;
  PlannedRun run;
  run.trained = with_chosen_caches(config, comm.size(), known);
  run.planned = with_known_device(run.trained, known);
  RoutingMode& routing = run.planned.routing.mode;
  // Devices cannot exchange ids then.
  if (context.device_comm().blocks_host() && routing == RoutingMode::kAuto) {
    routing = RoutingMode::kExact;
  }
  RoutedPlan chosen = choose_plan(comm, context.log, run.planned, start, known);
  check_alike(comm, chosen, config.model);
  run.plan = std::move(chosen.plan);
  routing = run.trained.routing.mode = chosen.mode;
  check_memory(context.log, run.planned, run.plan, known);
  if (comm.rank() == 0) {
    fmt::print(stderr, "{}{}{}\n", describe_choice(config, run.trained),
               describe_plan(run.planned, run.plan), chosen.said);
  }
  say_memory(context.log, run.planned, run.plan);
  return run;
}

}  // namespace dlrm
