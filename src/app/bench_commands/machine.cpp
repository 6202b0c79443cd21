#include "dlrm/train/machine.h"

#include "../write_output.h"
#include "bench/machine.h"
#include "bench/memory_check.h"
#include "bench/memory_rates.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

struct MachineArguments {
  bench::MachineOptions options;
  int threads = 0;
  std::string output;
};

void run_machine(World& world, MachineArguments& a) {
  const MachineShare share = machine_share(world.comm());
  a.options.threads = threads_for(a.threads, share);
  world.use_threads(a.options.threads);
  bench::check_memory("machine", static_cast<double>(bench::kRandomRowsBytes), share.memory_bytes);
  bench::check_memory("--largest", 3 * static_cast<double>(a.options.largest), share.memory_bytes);
  const std::string json = bench::to_json(bench::measure_machine(world.comm(), share, a.options));
  if (world.rank() != 0) return;
  fmt::print("{}", json);
  write_output(a.output, json);
}

}  // namespace

BenchCommand machine_command(CLI::App& app) {
  const auto arguments = std::make_shared<MachineArguments>();
  MachineArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "machine", "Measures memory and exchanges of all ranks, as a machine file for dlrm-plan.");
  command->footer(
      "Start it with mpirun, with as many ranks on each node as a run has. A rank reads rows of a\n"
      "GiB. dlrm-plan --machine and sharding.machine take the file.");
  add_seconds(*command, a.options.seconds, "time spent on each figure (0.5)");
  command
      ->add_option("--largest", a.options.largest,
                   "bytes that a rank sends in the largest exchange (16777216)")
      ->check(CLI::Range(int64_t{4096}, int64_t{1} << 30));
  command->add_option("--threads", a.threads, "of a rank; 0: its share of the CPUs")
      ->check(CLI::Range(0, kMostThreads));
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_machine(world, *arguments); },
          /*several_ranks=*/true};
}

}  // namespace dlrm
