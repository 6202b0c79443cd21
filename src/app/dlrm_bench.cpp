#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "dlrm/config/buildable.h"
#include "dlrm/core/cpus.h"
#include "dlrm/device/device.h"
#include "dlrm/plan/batch_size.h"
#include "dlrm/train/machine.h"
#include "dlrm/train/session.h"
#include "dlrm/train/spin_limit.h"

#include "bench/batch_sweep.h"
#include "bench/cache.h"
#include "bench/feeding.h"
#include "bench/infer.h"
#include "bench/kernels.h"
#include "bench/limits.h"
#include "bench/machine.h"
#include "bench/memory_check.h"
#include "bench/memory_rates.h"
#include "bench/published.h"
#include "bench/simulate.h"
#include "bench/timeline.h"
#include "memory_option.h"
#include "write_output.h"

namespace dlrm {
namespace {

// Of one size. Together, sizes are compared with the machine's memory.
constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr int64_t kMostSamples = int64_t{1} << 40;

struct Arguments {
  bench::LimitOptions limits;
  bench::SweepOptions sweep;
  bench::KernelOptions kernels;
  bench::CacheOptions cache;
  bench::MachineOptions machine;
  bench::InferOptions infer;
  bench::FeedingOptions feeding;
  bench::SimulateOptions simulate;
  bench::TimelineOptions timeline;
  int threads = 0;
  std::string batches = "8..1024";
  std::string device;
  std::vector<std::string> set;
  std::string output;
  std::string ranks = "1", machine_file, published;
  double device_memory = 0;  // GiB
  std::string figure;
  std::string shares = "1..10", policies = "lookahead", part = "tables";
  std::string served = "1..128", types = "fp32,bf16,int8", rates = "1000,10000,max";
};

CLI::App* declare_limits(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "limits", "Measures the machine's rates of matrix products and memory, as JSON.");
  command->add_option("--size", a.limits.size, "rows and columns of the matrices (2048)")
      ->check(CLI::Range(1, 32768));
  command->add_option("--megabytes", a.limits.megabytes, "size of each array of the triad (128)")
      ->check(CLI::Range(1, 65536));
  command->add_option("--seconds", a.limits.seconds, "time spent on each figure (1)")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("--threads", a.threads, "0: OMP_NUM_THREADS, or all CPUs if that is not set")
      ->check(CLI::Range(0, kMostThreads));
  command->add_option("--output", a.output, "also write the JSON to this file");
  return command;
}

CLI::App* declare_sweep(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "batch-sweep", "Times training on the same samples at several batch sizes.");
  command->footer(
      "Batches are loaded beforehand, and every repeat starts from new weights. Only the\n"
      "training loop is timed. data_tools/plot_batch_sweep.py plots the JSON.");
  command->add_option("CONFIG", a.sweep.config_path, "a training config")->required();
  command->add_option("--batches", a.batches, "8..1024 (doubling) or 8,32,128");
  command->add_option("--samples", a.sweep.samples, "samples to train on in each repeat (10000)")
      ->check(CLI::Range(int64_t{1}, kMostSamples));
  command->add_option("--repeats", a.sweep.repeats, "repeats of each batch size (10)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--set", a.set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
  command->add_option("--device", a.device, "cpu, cuda or auto; replaces the config's key")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  command->add_option("--output", a.output, "write the JSON to this file");
  return command;
}

CLI::App* declare_cache(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "cache", "Times training with cached tables by the size of the fast tier.");
  command->footer(
      "Ratios are those to training with resident tables. fetch and write are the shares of the\n"
      "time in which rows move beside the steps; exposed is the share in which steps wait for\n"
      "them. data_tools/plot_cache.py plots the JSON.");
  command->add_option("CONFIG", a.cache.config_path, "a training config")->required();
  command->add_option("--shares", a.shares,
                      "1..10 or 10,75: percents of the tables in fast memory");
  command->add_option("--policies", a.policies, "lookahead,lru16,static: one or more (lookahead)");
  command->add_option("--part", a.part, "tables: lookups and updates alone; step: whole steps")
      ->check(CLI::IsMember({"tables", "step"}));
  command->add_option("--seconds", a.cache.seconds, "time spent on each figure (60)")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("--warm-up", a.cache.warm_up, "seconds before each figure (20)")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("--set", a.set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
  command->add_option("--output", a.output, "write the JSON to this file");
  return command;
}

CLI::App* declare_kernels(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "kernels",
      "Times every operation, and compares it with a plain copy and plain matrix products.");
  command->footer(
      "A share is the time that the copies or products alone would take at the measured rates,\n"
      "divided by the operation's time. Each id counts as one row, even if a cache holds the row.\n"
      "Sizes that are not given fit the device. data_tools/torch_kernels.py times the same\n"
      "operations of PyTorch.");
  const auto size = [&](const char* name, int64_t& value, const char* what) {
    command->add_option(name, value, what)->check(CLI::Range(int64_t{1}, kMostElements));
  };
  bench::KernelSizes& s = a.kernels.sizes;
  size("--batch", s.batch, "samples");
  size("--tables", s.tables, "tables that are looked up");
  size("--rows", s.rows, "rows of each table");
  size("--hotness", s.hotness, "ids of a bag (20)");
  size("--width", s.width, "width of rows and vectors (128)");
  size("--features", s.features, "vectors that interact with the dense one (26)");
  size("--matrix", s.matrix, "rows and columns of the plain product");
  size("--copied", s.copied, "bytes of the plain copy");
  size("--layer", s.layer, "inputs and outputs of the linear layer (1024)");
  size("--crossed", s.crossed, "columns of the cross layer (3456)");
  size("--parameters", s.parameters, "of dense updates (16777216)");
  command->add_option("--seconds", a.kernels.seconds, "time spent on each figure (0.2)")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("--only", a.kernels.only, "only operations whose name contains this");
  command->add_option("--device", a.kernels.device, "cpu, cuda or auto (auto)")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  command->add_option("--tf32", a.kernels.tf32, "allow TF32 in fp32 products of a GPU (true)");
  command->add_option("--threads", a.threads, "0: OMP_NUM_THREADS, or all CPUs if that is not set")
      ->check(CLI::Range(0, kMostThreads));
  command->add_option("--output", a.output, "write the JSON to this file");
  return command;
}

CLI::App* declare_machine(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "machine", "Measures memory and exchanges of all ranks, as a machine file for dlrm-plan.");
  command->footer(
      "Start it with mpirun, with as many ranks on each node as a run has. A rank reads rows of a\n"
      "GiB. dlrm-plan --machine and sharding.machine take the file.");
  command->add_option("--seconds", a.machine.seconds, "time spent on each figure (0.5)")
      ->check(CLI::Range(0.0, 3600.0));
  command
      ->add_option("--largest", a.machine.largest,
                   "bytes that a rank sends in the largest exchange (16777216)")
      ->check(CLI::Range(int64_t{4096}, int64_t{1} << 30));
  command->add_option("--threads", a.threads, "of a rank; 0: its share of the CPUs")
      ->check(CLI::Range(0, kMostThreads));
  command->add_option("--output", a.output, "also write the JSON to this file");
  return command;
}

CLI::App* declare_infer(CLI::App& app, Arguments& a) {
  CLI::App* command =
      app.add_subcommand("infer", "Times predictions by batch size and by rate of requests.");
  command->footer(
      "Ids are uniform. Batches follow one another. Requests have one sample each; they arrive at\n"
      "fixed times and are put together as in dlrm-infer. max: each client sends the next one at\n"
      "once.");
  command->add_option("CHECKPOINT", a.infer.checkpoint, "as dlrm-infer takes it")->required();
  command->add_option("--batches", a.served, "1..128 (doubling) or 1,8,64");
  command->add_option("--tables", a.types, "fp32,bf16,int8,mapped: one or more");
  command->add_option("--rates", a.rates, "requests per second: 1000,10000,max");
  command
      ->add_option("--batch-wait", a.infer.batch_wait,
                   "microseconds that a request waits for others (100)")
      ->check(CLI::Range(int64_t{0}, int64_t{10000000}));
  command->add_option("--clients", a.infer.clients, "threads that send requests (16)")
      ->check(CLI::Range(1, kMostThreads));
  command->add_option("--seconds", a.infer.seconds, "time spent on each figure (1)")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("--threads", a.threads, "0: OMP_NUM_THREADS, or all CPUs if that is not set")
      ->check(CLI::Range(0, kMostThreads));
  command->add_option("--output", a.output, "write the JSON to this file");
  return command;
}

CLI::App* declare_feeding(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "feeding", "Times training by how it is fed: text, workers, datasets, batches, shuffling.");
  command->footer(
      "Trains an epoch on a log in Criteo's format with each way in turn, by dlrm-train, and "
      "makes\n"
      "the datasets by dlrm-data. Tables get equal numbers of rows, because text is hashed. busy "
      "is\n"
      "the share of time in which the device was busy, on a CPU 1 - the share that steps waited "
      "for\n"
      "data. data_tools/plot_feeding.py plots the JSON.");
  command->add_option("CONFIG", a.feeding.config_path, "a training config")->required();
  command->add_option("--data", a.feeding.data, "the log, plain or gzip")->required();
  command->add_option("--rows", a.feeding.rows, "rows of every table (100000)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command->add_option("--workers", a.feeding.workers, "data.workers; 0: one per CPU")
      ->check(CLI::Range(0, 256));
  command->add_option("--rounds", a.feeding.rounds, "times that each way is measured (1)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--folder", a.feeding.folder,
                      "for datasets and runs, which remain; a temporary one by default");
  command->add_option("--set", a.set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
  command->add_option("--output", a.output, "write the JSON to this file");
  return command;
}

CLI::App* declare_simulate(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Predicts the time of a training step on many ranks from a machine file.");
  command->footer(
      "Makes the plan of each number of ranks and simulates its steps: what overlaps, and which\n"
      "rank waits for which. Nothing is trained. docs/planning.md says what is left out.");
  CLI::Option* config = command->add_option("CONFIG", a.simulate.config_path, "a training config");
  command
      ->add_option("--published", a.published,
                   "instead of CONFIG: compares with the step times of such a file")
      ->excludes(config);
  command->add_option("--like", a.simulate.like,
                      "with the placement and the costs of the program of such a file");
  command->add_option("--ranks", a.ranks, "1..64 (doubling) or 1,8,64 (1)");
  command->add_option("--machine", a.machine_file, "machine file, as sharding.machine")->required();
  command
      ->add_option("--device-memory", a.device_memory,
                   "GiB of device memory that the plan may use for a rank")
      ->check(gibibytes());
  command->add_option("--set", a.set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
  command->add_option("--output", a.output, "write the JSON to this file");
  return command;
}

CLI::App* declare_timeline(CLI::App& app, Arguments& a) {
  CLI::App* command = app.add_subcommand(
      "timeline", "Counts and draws what a step queues on each stream of a GPU, in the emulator.");
  command->footer(
      "Trains a few steps in the emulator (preset simt), with threads as ranks, and records every\n"
      "launch with what it waits for. Tables and the batch are made small for that; the plan and\n"
      "the modelled times are those of the config. Needs the config's layers in memory, once per\n"
      "rank.");
  command->add_option("CONFIG", a.timeline.config_path, "a training config")->required();
  command->add_option("--ranks", a.timeline.ranks, "ranks, one GPU each (8)")
      ->check(CLI::Range(1, 64));
  command->add_option("--machine", a.machine_file, "machine file, as sharding.machine")->required();
  command->add_option("--samples", a.timeline.samples, "samples of a rank in the emulator (8)")
      ->check(CLI::Range(int64_t{1}, kMostSamples));
  command->add_option("--rows", a.timeline.rows, "most rows of a table in the emulator (2000)")
      ->check(CLI::Range(int64_t{64}, kMostElements));
  command
      ->add_option("--device-memory", a.device_memory,
                   "GiB of device memory that the plan may use for a rank")
      ->check(gibibytes());
  command->add_option("--set", a.set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
  command->add_option("--figure", a.figure, "draw one step of rank 0 into this SVG file");
  command->add_option("--output", a.output, "write the JSON to this file");
  return command;
}

void run_timeline(World& world, Arguments& a) {
  if (world.size() != 1) throw usage_error("timeline needs one process; mpirun started more");
  a.timeline.device_memory = a.device_memory * 0x1p30;
  a.set.push_back("sharding.machine=" + a.machine_file);
  a.timeline.config = load_config(a.timeline.config_path, a.set);
  check_batch_is_chosen(a.timeline.config, "dlrm-bench timeline");
  const bench::TimelineResult result = bench::run_timeline(a.timeline);
  fmt::print("{}", bench::to_table(a.timeline, result));
  write_output(a.figure, bench::to_figure(a.timeline, result));
  write_output(a.output, bench::to_json(a.timeline, result));
}

void run_simulate(World& world, Arguments& a) {
  if (world.size() != 1) throw usage_error("simulate needs one process; mpirun started more");
  if (!a.published.empty()) {
    const bench::PublishedTimes times = bench::read_published(a.published);
    const bench::PublishedResult result = bench::compare_published(times, a.machine_file);
    fmt::print("{}", bench::to_table(times, result));
    return write_output(a.output, bench::to_json(times, result));
  }
  if (a.simulate.config_path.empty())
    throw usage_error("simulate: CONFIG or --published is needed");
  a.simulate.ranks = bench::parse_ranks(a.ranks);
  a.simulate.device_memory = a.device_memory * 0x1p30;
  a.set.push_back("sharding.machine=" + a.machine_file);
  a.simulate.config = load_config(a.simulate.config_path, a.set);
  check_batch_is_chosen(a.simulate.config, "dlrm-bench simulate");
  const bench::SimulateResult result = bench::run_simulate(a.simulate);
  fmt::print("{}", bench::to_table(a.simulate, result));
  write_output(a.output, bench::to_json(a.simulate, result));
}

void run_feeding(World& world, Arguments& a) {
  if (world.size() != 1) throw usage_error("feeding measures one process; mpirun started more");
  a.feeding.set = a.set;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  const bench::FeedingResult result = bench::run_feeding(a.feeding, self);
  fmt::print("{}", bench::to_table(a.feeding, result));
  write_output(a.output, bench::to_json(a.feeding, result));
}

void run_limits(World& world, Arguments& a) {
  if (world.size() != 1) throw usage_error("limits measures one process; mpirun started more");
  const MachineShare share = machine_share(world.comm());
  a.limits.threads = threads_for(a.threads, share);
  const auto size = static_cast<double>(a.limits.size);
  bench::check_memory("--size", 3 * size * size * 4, share.memory_bytes);
  bench::check_memory("--megabytes", 3e6 * static_cast<double>(a.limits.megabytes),
                      share.memory_bytes);
  const std::string json = bench::to_json(a.limits, bench::measure_limits(a.limits));
  fmt::print("{}", json);
  write_output(a.output, json);
}

void run_machine(World& world, Arguments& a) {
  const MachineShare share = machine_share(world.comm());
  a.machine.threads = threads_for(a.threads, share);
  world.use_threads(a.machine.threads);
  bench::check_memory("machine", static_cast<double>(bench::kRandomRowsBytes), share.memory_bytes);
  bench::check_memory("--largest", 3 * static_cast<double>(a.machine.largest), share.memory_bytes);
  const std::string json = bench::to_json(bench::measure_machine(world.comm(), a.machine));
  if (world.rank() != 0) return;
  fmt::print("{}", json);
  write_output(a.output, json);
}

void run_kernels(World& world, Arguments& a) {
  if (world.size() != 1) throw usage_error("kernels measures one process; mpirun started more");
  const MachineShare share = machine_share(world.comm());
  a.kernels.threads = threads_for(a.threads, share);
  a.kernels.memory_bytes = share.memory_bytes;
  const bench::KernelResult result = bench::time_kernels(a.kernels);
  fmt::print("{}", bench::to_table(result));
  write_output(a.output, bench::to_json(a.kernels, result));
}

void run_infer(World& world, Arguments& a) {
  if (world.size() != 1) throw usage_error("infer measures one process; mpirun started more");
  const MachineShare share = machine_share(world.comm());
  a.infer.batches = bench::parse_batches(a.served);
  a.infer.tables = bench::parse_tables(a.types);
  a.infer.rates = bench::parse_rates(a.rates);
  a.infer.threads = threads_for(a.threads, share);
  a.infer.memory_bytes = share.memory_bytes;
  const bench::InferResult result = bench::run_infer(a.infer);
  fmt::print("{}", bench::to_table(a.infer, result));
  write_output(a.output, bench::to_json(a.infer, result));
}

void run_sweep(World& world, Arguments& a) {
  a.sweep.batches = bench::parse_batches(a.batches);
  if (!a.device.empty()) a.set.push_back("device=" + a.device);
  a.sweep.config = load_config(a.sweep.config_path, a.set);
  check_buildable(a.sweep.config, {built_with_cuda()});
  const bench::SweepResult result = bench::run_batch_sweep(world.comm(), a.sweep);
  fmt::print("{}", bench::to_table(a.sweep, result));
  write_output(a.output, bench::to_json(a.sweep, result));
}

void run_cache(World& world, Arguments& a) {
  if (world.size() != 1) throw usage_error("cache measures one process; mpirun started more");
  a.cache.shares = bench::parse_shares(a.shares);
  a.cache.policies = CLI::detail::split(a.policies, ',');
  a.cache.whole_step = a.part == "step";
  a.set.push_back("memory.tier=cached");
  // An unknown policy is refused before anything is measured.
  for (const std::string& policy : a.cache.policies) {
    std::vector<std::string> set = a.set;
    set.push_back("memory.cached.policy=" + policy);
    load_config(a.cache.config_path, set);
  }
  a.cache.config = load_config(a.cache.config_path, a.set);
  check_buildable(a.cache.config, {built_with_cuda()});
  check_batch_is_chosen(a.cache.config, "dlrm-bench cache");
  const bench::CacheResult result = bench::run_cache(world.comm(), a.cache);
  fmt::print("{}", bench::to_table(a.cache, result));
  write_output(a.output, bench::to_json(a.cache, result));
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  using namespace dlrm;
  limit_spinning(argv);
  World world(&argc, &argv);
  Arguments arguments;
  CLI::App app{"Measures the training of recommendation models (DLRM) and the machine.",
               "dlrm-bench"};
  app.set_version_flag("--version", DLRM_VERSION);
  app.require_subcommand(1);
  CLI::App* limits = declare_limits(app, arguments);
  CLI::App* machine = declare_machine(app, arguments);
  declare_sweep(app, arguments);
  CLI::App* kernels = declare_kernels(app, arguments);
  CLI::App* cache = declare_cache(app, arguments);
  CLI::App* infer = declare_infer(app, arguments);
  CLI::App* feeding = declare_feeding(app, arguments);
  CLI::App* simulate = declare_simulate(app, arguments);
  CLI::App* timeline = declare_timeline(app, arguments);
  return run_guarded(world, [&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) {
        throw usage_error("{} (see dlrm-bench --help)", error.what());
      }
      if (world.rank() == 0) app.exit(error);
      return ExitCode::kDone;
    }
    if (limits->parsed()) {
      run_limits(world, arguments);
    } else if (machine->parsed()) {
      run_machine(world, arguments);
    } else if (kernels->parsed()) {
      run_kernels(world, arguments);
    } else if (cache->parsed()) {
      run_cache(world, arguments);
    } else if (infer->parsed()) {
      run_infer(world, arguments);
    } else if (feeding->parsed()) {
      run_feeding(world, arguments);
    } else if (simulate->parsed()) {
      run_simulate(world, arguments);
    } else if (timeline->parsed()) {
      run_timeline(world, arguments);
    } else {
      run_sweep(world, arguments);
    }
    return ExitCode::kDone;
  });
}
