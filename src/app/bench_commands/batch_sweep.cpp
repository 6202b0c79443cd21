#include "bench/batch_sweep.h"

#include "dlrm/config/buildable.h"
#include "dlrm/device/device.h"

#include "../write_output.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 40;

struct BatchSweepArguments {
  bench::SweepOptions options;
  std::string batches = "8..1024", device;
  std::vector<std::string> set;
  std::string output;
};

void run_batch_sweep(World& world, BatchSweepArguments& a) {
  a.options.batches = bench::parse_batches(a.batches);
  if (!a.device.empty()) a.set.push_back("device=" + a.device);
  a.options.config = load_config(a.options.config_path, a.set);
  check_buildable(a.options.config, {built_with_cuda()});
  const bench::SweepResult result = bench::run_batch_sweep(world.comm(), a.options);
  fmt::print("{}", bench::to_table(a.options, result));
  write_output(a.output, bench::to_json(a.options, result));
}

}  // namespace

BenchCommand batch_sweep_command(CLI::App& app) {
  const auto arguments = std::make_shared<BatchSweepArguments>();
  BatchSweepArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "batch-sweep", "Times training on the same samples at several batch sizes.");
  command->footer(
      "Batches are loaded beforehand, and every repeat starts from new weights. Only the\n"
      "training loop is timed. `dlrm-plot batch-sweep` draws the JSON.");
  add_config(*command, a.options.config_path);
  command->add_option("--batches", a.batches, "8..1024 (doubling) or 8,32,128");
  command->add_option("--samples", a.options.samples, "samples to train on in each repeat (10000)")
      ->check(CLI::Range(int64_t{1}, kMostSamples));
  command->add_option("--repeats", a.options.repeats, "repeats of each batch size (10)")
      ->check(CLI::Range(1, 1000000));
  add_set(*command, a.set);
  add_device(*command, a.device, "cpu, cuda or auto; replaces the config's key");
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_batch_sweep(world, *arguments); }};
}

}  // namespace dlrm
