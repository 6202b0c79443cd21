#include "bench/timeline.h"

#include "dlrm/plan/batch_size.h"

#include "../write_output.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr int64_t kMostSamples = int64_t{1} << 40;

struct TimelineArguments {
  bench::TimelineOptions options;
  std::string machine_file;
  double device_memory = 0;  // GiB
  std::vector<std::string> set;
  std::string figure, output;
};

void run_timeline(World&, TimelineArguments& a) {
  a.options.device_memory = a.device_memory * 0x1p30;
  a.set.push_back("sharding.machine=" + a.machine_file);
  a.options.config = load_config(a.options.config_path, a.set);
  check_batch_is_chosen(a.options.config, "dlrm-bench timeline");
  const bench::TimelineResult result = bench::run_timeline(a.options);
  fmt::print("{}", bench::to_table(a.options, result));
  write_output(a.figure, bench::to_figure(a.options, result));
  write_output(a.output, bench::to_json(a.options, result));
}

}  // namespace

BenchCommand timeline_command(CLI::App& app) {
  const auto arguments = std::make_shared<TimelineArguments>();
  TimelineArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "timeline", "Counts and draws what a step queues on each stream of a GPU, in the emulator.");
  command->footer(
      "Trains a few steps in the emulator (preset simt), with threads as ranks, and records every\n"
      "launch with what it waits for. Tables and the batch are made small for that; the plan and\n"
      "the modelled times are those of the config. Needs the config's layers in memory, once per\n"
      "rank.");
  add_config(*command, a.options.config_path);
  command->add_option("--ranks", a.options.ranks, "ranks, one GPU each (8)")
      ->check(CLI::Range(1, 64));
  add_machine(*command, a.machine_file);
  command->add_option("--samples", a.options.samples, "samples of a rank in the emulator (8)")
      ->check(CLI::Range(int64_t{1}, kMostSamples));
  command->add_option("--rows", a.options.rows, "most rows of a table in the emulator (2000)")
      ->check(CLI::Range(int64_t{64}, kMostElements));
  add_device_memory(*command, a.device_memory);
  add_set(*command, a.set);
  command->add_option("--figure", a.figure, "draw one step of rank 0 into this SVG file");
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_timeline(world, *arguments); }};
}

}  // namespace dlrm
