#include "dlrm/train/run.h"

#include <algorithm>
#include <ctime>

#include "dlrm/core/utc.h"
#include "dlrm/train/execution.h"
#include "dlrm/train/session.h"
#include "dlrm/train/trace_file.h"

#include "job_locks.h"
#include "ready_run.h"
#include "run_setup.h"
#include "train/evaluation/prediction_file.h"

namespace dlrm {
namespace {

void say_threads(Context& context, const MachineShare& share, int threads) {
  context.log.info("{} rank{}, {} thread{} each, {}", context.comm.size(),
                   context.comm.size() == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                   context.device.describe());
  if (share.cpus * share.ranks_here < share.machine_cpus && threads <= share.cpus) {
    context.log.warn(
        "the launcher bound this rank to {} of the machine's {} CPUs, and {} rank(s) leave the "
        "others idle: mpirun --bind-to none, or more ranks, would use them",
        share.cpus, share.machine_cpus, share.ranks_here);
  }
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

/// Reserves checkpoint.directory, before anything in it is read, if this run may save or remove
/// checkpoints. A run without checkpoints reserves it only if it is asked to stop and save.
void reserve_checkpoints(JobLocks& locks, Communicator& comm, const RunOptions& options) {
  const CheckpointConfig& own = options.config.checkpoint;
  const bool removes = options.overwrite && has_checkpoints(comm, own.directory);
  if (options.eval_only || (!saves_checkpoints(own) && !removes)) return;
  locks.reserve("checkpoint.directory", own.directory);
}

/// Reserves output.directory. An evaluation without training reserves nothing. If another job uses
/// the folder, it writes nothing and logs that. Returns true if this run may write.
bool reserve_output(JobLocks& locks, Context& context, const RunOptions& options) {
  const std::string& directory = options.config.output.directory;
  if (!options.eval_only) {
    locks.reserve("output.directory", directory);
    return true;
  }
  const std::string user = user_of(context.comm, directory);
  if (user.empty()) return true;
  if (context.comm.rank() == 0) context.log.warn("{}; the evaluation is only logged", user);
  return false;
}

/// `counted`: the source of counted_split(), or null.
Sources open_sources(Context& context, const RunOptions& options, const BatchSource* counted) {
  const auto open = [&](Split split) {
    return make_batch_source(options.config, split, context.comm.rank(), context.comm.size(),
                             split == counted_split(options) ? counted : nullptr);
  };
  Sources sources;
  sources.test = open(Split::kTest);
  if (options.eval_only && !sources.test) {
    throw usage_error("{}: data.test names no file to evaluate on",
                      options.predict.empty() ? "--eval-only" : "--predict");
  }
  if (!options.eval_only) {
    sources.train = open(Split::kTrain);
    context.log.info("training on {}", sources.train->describe());
  }
  if (!sources.test) context.log.info("no test data: no evaluation");
  return sources;
}

/// Makes the plan. Rank 0 prints it. Throws usage_error if it needs too much memory. Collective.
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

}  // namespace

ExitCode run_training(World& world, const RunOptions& given) {
  Communicator& comm = world.comm();
  const Log log(comm.rank());
  Trace trace(!given.profile.empty());
  const StopSignal stop;
  const std::string began = utc_text(std::time(nullptr));
  world.start_watchdog(given.config.train.timeout, trace);
  const MachineShare share = machine_share(comm);
  const int threads = threads_for(given.config.train.threads, share);
  world.use_threads(threads);

  check_alike(comm, given);
  if (!given.predict.empty()) check_prediction_name(given.predict);
  Execution execution(comm, given.config, share);
  Context context = execution.context(trace, log);
  say_threads(context, share, threads);

  std::optional<WatchdogPause> waiting;
  if (given.config.data.source == DataKind::kCriteo) waiting.emplace(world);  // reads all text
  const PlanOptions& known = execution.plan_options();
  std::unique_ptr<BatchSource> counted;
  const RunOptions options = with_batch_size(comm, log, given, known, counted);
  const Sources sources = open_sources(context, options, counted.get());
  counted.reset();
  waiting.emplace(world);
  JobLocks locks(comm);
  reserve_checkpoints(locks, comm, options);
  waiting.reset();
  const StartingPoint start = find_start(comm, log, options);
  const PlannedRun planned = plan_run(context, options.config, start, known);

  const auto ops = execution.make_ops(threads, options.check);
  // All checks precede the removal of earlier checkpoints.
  RunDirectory directory(comm, options.config.output.directory);
  if (!options.profile.empty()) check_trace_path(comm, options.profile);
  std::optional<WatchdogPause> loading(std::in_place, world);
  const bool writes = reserve_output(locks, context, options);
  Trainer trainer(context, *ops, planned.trained, planned.plan,
                  !start.resumed && !options.eval_only);
  // A replayed graph has no stage times.
  trainer.use_graphs(!options.check && options.profile.empty());
  if (!options.profile.empty()) trainer.time_stages();
  const ReadyRun ready{world, context, locks,     options, planned, sources, start,
                       stop,  trainer, directory, writes,  threads, began};
  // An error is reported before the trainer is destroyed: other ranks may wait in its calls.
  return end_where_it_fails(world, [&] { return run_to_end(ready, loading); });
}

}  // namespace dlrm
