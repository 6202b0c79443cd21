#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "dlrm/config/buildable.h"
#include "dlrm/device/device.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/run.h"
#include "dlrm/train/session.h"
#include "dlrm/train/spin_limit.h"
#include "dlrm/train/stop_signal.h"

#include "memory_option.h"
#include "report_plan.h"
#include "scan_data.h"

namespace dlrm {
namespace {

/// Seconds for MPI to start. A train.timeout may be short because steps are.
constexpr double kLeastMpiTimeout = 20;

struct Arguments {
  std::string config;
  std::vector<std::string> set;
  std::string resume;
  std::string device = "";
  std::string print;
  bool plan_only = false;
  int ranks = 0;
  double device_memory_gib = 0;
  double host_memory_gib = 0;
  RecordsOptions records;
  RunOptions run;
};

void declare(CLI::App& app, Arguments& a, CLI::Option*& resume) {
  app.set_version_flag("--version", DLRM_VERSION);
  app.add_option("CONFIG", a.config, "the run's YAML file; docs/config.md lists its keys")
      ->required();
  app.add_option("--set", a.set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
  resume =
      app.add_option("--resume", a.resume,
                     "continue from the newest checkpoint in DIR (default: checkpoint.directory)")
          ->expected(0, 1)
          ->type_name("[=DIR]");
  app.add_option("--init-from", a.run.init_from, "load only the weights of a checkpoint")
      ->type_name("DIR");
  app.add_flag("--eval-only", a.run.eval_only,
               "evaluate a checkpoint on data.test without training");
  CLI::Option* const predict =
      app.add_option("--predict", a.run.predict,
                     "like --eval-only, and write the probability of every sample of data.test to "
                     "this file, which ends in .h5 or .csv");
  predict->type_name("FILE");
  CLI::Option* const records = app.add_option(
      "--records", a.records.path,
      "with --predict: predict the records of this file, as `dlrm-data import` reads "
      "them, instead of data.test: CSV, TSV, JSON lines or Parquet");
  records->type_name("FILE")->needs(predict);
  app.add_option(
         "--format", a.records.format,
         "json, csv, tsv or parquet (default: by the name's ending and the import's schema)")
      ->check(CLI::IsMember({"json", "csv", "tsv", "parquet"}))
      ->needs(records);
  app.add_option("--keys", a.records.keys,
                 "columns, with commas, whose values are written beside each probability")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B")
      ->needs(records);
  app.add_flag("--overwrite", a.run.overwrite, "start a new run: remove existing checkpoints");
  app.add_option("--print", a.print, "print the value of one key of the config, and end")
      ->type_name("KEY");
  app.add_flag("--plan-only", a.plan_only,
               "print where each table is placed and the memory that it needs");
  app.add_option("--ranks", a.ranks, "with --plan-only: number of ranks")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--device-memory", a.device_memory_gib,
                 "with --plan-only: GiB of device memory per rank")
      ->check(gibibytes());
  app.add_option("--host-memory", a.host_memory_gib,
                 "with --plan-only: GiB of host memory per rank, in addition to its GPU's")
      ->check(gibibytes());
  app.add_option("--device", a.device, "cpu, cuda or auto; replaces the config's key")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  app.add_flag(
      "--check", a.run.check,
      "compare every operation with the fp64 reference; name the first that disagrees (slow)");
  app.add_option("--profile", a.run.profile,
                 "write a Chrome trace of the stages of every rank to this file")
      ->type_name("FILE");
}

/// Moves a --resume without a value to the end. CLI11 would otherwise take the config's name as its
/// value.
std::vector<std::string> normalised(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  bool found = false;
  words.erase(std::remove_if(words.begin(), words.end(),
                             [&](const std::string& w) {
                               if (w != "--resume") return false;
                               return found = true;
                             }),
              words.end());
  if (found) words.push_back("--resume");
  std::reverse(words.begin(), words.end());  // CLI11 takes the words in reverse order
  return words;
}

ExitCode plan_only(const Arguments& a, int ranks) {
  PlanOptions options;
  options.rank_memory_bytes = a.device_memory_gib * 0x1p30;
  options.host_memory_bytes = a.host_memory_gib * 0x1p30;
  options.gpu = !cuda_is_emulated() && cuda_device_count() > 0;
  const auto [config, plan] = report_plan(a.run.config, a.ranks > 0 ? a.ranks : ranks, options);
  fmt::print("{}", feasibility(config, plan));
  return ExitCode::kDone;
}

/// Reads the command line and the config. Throws usage_error, or CLI::Success if only help or the
/// version is requested.
void read(CLI::App& app, Arguments& a, int argc, char** argv) {
  CLI::Option* resume = nullptr;
  declare(app, a, resume);
  try {
    app.parse(normalised(argc, argv));
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ParseError& error) {
    throw usage_error("{} (see dlrm-train --help)", error.what());
  }
  if (resume->count() > 0) a.run.resume = a.resume;
  if (!a.run.predict.empty()) a.run.eval_only = true;
  if (!a.device.empty()) a.set.push_back("device=" + a.device);
  a.run.config = load_config(a.config, a.set);
  if (a.records.path.empty()) return;
  a.run.records = a.records;
  a.run.config.data.valid.clear();
  a.run.config.data.test.clear();
}

ExitCode run(World& world, const Arguments& a) {
  if (a.plan_only) return world.rank() == 0 ? plan_only(a, world.size()) : ExitCode::kDone;
  if (a.ranks > 0 || a.device_memory_gib > 0 || a.host_memory_gib > 0) {
    throw usage_error(
        "--ranks, --device-memory and --host-memory go with --plan-only; mpirun -np sets the "
        "ranks, memory.device a limit");
  }
  check_buildable(a.run.config, {built_with_cuda()});
  return run_training(world, a.run);
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  using namespace dlrm;
  limit_spinning(argv);
  // Created before MPI starts, so that a request to stop during its start counts too.
  std::optional<StopSignal> stop(std::in_place);
  // A file at its size limit is then an error of that write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app{"Trains deep-learning recommendation models (DLRM) on one or many ranks.",
               "dlrm-train"};
  Arguments arguments;
  // Also before MPI starts, which train.timeout limits too. The ranks report an error together.
  std::exception_ptr error;
  try {
    read(app, arguments, argc, argv);
    if (!arguments.print.empty()) {
      fmt::print("{}\n", value_of(arguments.run.config, arguments.print));
      return 0;
    }
  } catch (...) {
    error = std::current_exception();
  }
  const double timeout = arguments.run.config.train.timeout;
  World world(&argc, &argv, std::max(timeout, kLeastMpiTimeout));
  const Trace starting;
  world.start_watchdog(timeout, starting);
  return run_guarded(world, [&] {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const CLI::Success& help) {
      if (world.rank() == 0) app.exit(help);
      return ExitCode::kDone;
    }
    arguments.run.version = DLRM_VERSION;
    arguments.run.command = fmt::format("{}", fmt::join(argv, argv + argc, " "));
    if (arguments.plan_only)
      stop.reset();  // there is nothing to save, so a signal may end the process
    return run(world, arguments);
  });
}
