#include "bench/limits.h"

#include "dlrm/train/machine.h"

#include "../write_output.h"
#include "bench/memory_check.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

struct LimitsArguments {
  bench::LimitOptions options;
  int threads = 0;
  std::string output;
};

void run_limits(World& world, LimitsArguments& a) {
  const MachineShare share = machine_share(world.comm());
  a.options.threads = threads_for(a.threads, share);
  const auto size = static_cast<double>(a.options.size);
  bench::check_memory("--size", 3 * size * size * 4, share.memory_bytes);
  bench::check_memory("--megabytes", 3e6 * static_cast<double>(a.options.megabytes),
                      share.memory_bytes);
  const std::string json = bench::to_json(a.options, bench::measure_limits(a.options));
  fmt::print("{}", json);
  write_output(a.output, json);
}

}  // namespace

BenchCommand limits_command(CLI::App& app) {
  const auto arguments = std::make_shared<LimitsArguments>();
  LimitsArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "limits", "Measures the machine's rates of matrix products and memory, as JSON.");
  command->add_option("--size", a.options.size, "rows and columns of the matrices (2048)")
      ->check(CLI::Range(1, 32768));
  command->add_option("--megabytes", a.options.megabytes, "size of each array of the triad (128)")
      ->check(CLI::Range(1, 65536));
  add_seconds(*command, a.options.seconds, "time spent on each figure (1)");
  add_threads(*command, a.threads);
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_limits(world, *arguments); }};
}

}  // namespace dlrm
