#include "run_setup.h"

#include <cstdio>

#include <fmt/ranges.h>

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

}  // namespace

StartingPoint find_start(Communicator& comm, const Log& log, const RunOptions& options) {
  const std::string& own = options.config.checkpoint.directory;
  StartingPoint start;
  if (!options.init_from.empty()) {
    const auto found = find_checkpoint(comm, options.init_from);
    if (!found)
      throw usage_error("--init-from={}: no checkpoint (step_*) there", options.init_from);
    start.path = *found;
    start.state = open_checkpoint(comm, start.path);
  } else if (options.resume || options.eval_only) {
    const std::string from = options.resume && !options.resume->empty() ? *options.resume : own;
    const auto found = find_checkpoint(comm, from);
    if (!found && options.eval_only) {
      throw usage_error(
          "--eval-only: no checkpoint (step_*) in {}; --resume=DIR or --init-from=DIR "
          "names one",
          from);
    }
    if (!found) {
      log.info("nothing saved in {}: starting anew", from);
      return start;
    }
    start.path = *found;
    start.state = open_checkpoint(comm, start.path);
    start.resumed = !options.eval_only;
    if (start.resumed) check_resumable(start, options.config);
  }
  if (start.resumed || options.eval_only) return start;
  if (options.overwrite) {
    remove_checkpoints(comm, own);
  } else if (find_checkpoint(comm, own)) {
    throw usage_error(
        "{} holds checkpoints of an earlier run: --resume continues it, --overwrite "
        "removes them, checkpoint.directory names another place",
        own);
  }
  return start;
}

Plan choose_plan(Communicator& comm, const Log& log, const RunConfig& config,
                 const StartingPoint& start, const MachineShare& share) {
  if (start.resumed && same_sharding(saved_config(start).sharding, config.sharding)) {
    try {
      return parse_plan(start.state.plan, start.path + "/index.h5 (plan)", config.model,
                        comm.size());
    } catch (const Error&) {
      log.info("{}: saved by another number of ranks; the tables are placed anew", start.path);
    }
  }
  PlanOptions options;
  options.rank_memory_bytes = share.memory_bytes;
  options.ranks_per_node = share.ranks_here;
  // Ranks may see different amounts of free memory; all must make the same plan.
  comm.broadcast(&options, sizeof(options), 0);
  return make_plan(config, comm.size(), options);
}

void check_memory(const Log& log, const RunConfig& config, const Plan& plan,
                  const MachineShare& share) {
  bool fits = true;
  const std::string table = describe_memory(config, plan, share.memory_bytes, &fits);
  if (fits) return;
  if (log.rank() == 0) fmt::print(stderr, "{}\n", table);
  throw usage_error(
      "too little memory: a rank may use {:.2f} GiB here, and the table above says who needs what; "
      "more ranks or machines, or smaller tables, would fit",
      share.memory_bytes / 0x1p30);
}

}  // namespace dlrm
