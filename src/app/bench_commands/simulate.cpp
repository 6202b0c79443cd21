#include "bench/simulate.h"

#include "dlrm/plan/batch_size.h"

#include "../write_output.h"
#include "bench/published.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

struct SimulateArguments {
  bench::SimulateOptions options;
  std::string ranks = "1", machine_file, published;
  double device_memory = 0;  // GiB
  std::vector<std::string> set;
  std::string output;
};

void run_simulate(World&, SimulateArguments& a) {
  if (!a.published.empty()) {
    const bench::PublishedTimes times = bench::read_published(a.published);
    const bench::PublishedResult result = bench::compare_published(times, a.machine_file);
    fmt::print("{}", bench::to_table(times, result));
    return write_output(a.output, bench::to_json(times, result));
  }
  if (a.options.config_path.empty()) throw usage_error("simulate: CONFIG or --published is needed");
  a.options.ranks = bench::parse_ranks(a.ranks);
  a.options.device_memory = a.device_memory * 0x1p30;
  a.set.push_back("sharding.machine=" + a.machine_file);
  a.options.config = load_config(a.options.config_path, a.set);
  check_batch_is_chosen(a.options.config, "dlrm-bench simulate");
  const bench::SimulateResult result = bench::run_simulate(a.options);
  fmt::print("{}", bench::to_table(a.options, result));
  write_output(a.output, bench::to_json(a.options, result));
}

}  // namespace

BenchCommand simulate_command(CLI::App& app) {
  const auto arguments = std::make_shared<SimulateArguments>();
  SimulateArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "simulate", "Predicts the time of a training step on many ranks from a machine file.");
  command->footer(
      "Makes the plan of each number of ranks and simulates its steps: what overlaps, and which\n"
      "rank waits for which. Nothing is trained. docs/planning.md says what is left out.");
  CLI::Option* config = command->add_option("CONFIG", a.options.config_path, "a training config");
  command
      ->add_option("--published", a.published,
                   "instead of CONFIG: compares with the step times of such a file")
      ->excludes(config);
  command->add_option("--like", a.options.like,
                      "with the placement and the costs of the program of such a file");
  command->add_option("--ranks", a.ranks, "1..64 (doubling) or 1,8,64 (1)");
  command
      ->add_option("--ranks-per-node", a.options.ranks_per_node,
                   "ranks on each node, instead of the machine file's ranks_per_node")
      ->check(CLI::Range(1, kMostRanks))
      ->excludes("--published");
  add_machine(*command, a.machine_file);
  add_device_memory(*command, a.device_memory);
  add_set(*command, a.set);
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_simulate(world, *arguments); }};
}

}  // namespace dlrm
