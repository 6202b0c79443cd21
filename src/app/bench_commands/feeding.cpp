#include "bench/feeding.h"

#include <filesystem>

#include "../write_output.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

struct FeedingArguments {
  bench::FeedingOptions options;
  std::vector<std::string> set;
  std::string output;
};

void run_feeding(World&, FeedingArguments& a) {
  a.options.set = a.set;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  const bench::FeedingResult result = bench::run_feeding(a.options, self);
  fmt::print("{}", bench::to_table(a.options, result));
  write_output(a.output, bench::to_json(a.options, result));
}

}  // namespace

BenchCommand feeding_command(CLI::App& app) {
  const auto arguments = std::make_shared<FeedingArguments>();
  FeedingArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "feeding", "Times training by how it is fed: text, workers, datasets, batches, shuffling.");
  command->footer(
      "Trains an epoch on a log in Criteo's format with each way in turn, by dlrm-train, and "
      "makes\n"
      "the datasets by dlrm-data. Tables get equal numbers of rows, because text is hashed. busy "
      "is\n"
      "the share of time in which the device was busy, on a CPU 1 - the share that steps waited "
      "for\n"
      "data. `dlrm-plot feeding` draws the JSON.");
  add_config(*command, a.options.config_path);
  command->add_option("--data", a.options.data, "the log, plain or gzip")->required();
  command->add_option("--rows", a.options.rows, "rows of every table (100000)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  command->add_option("--workers", a.options.workers, "data.workers; 0: one per CPU")
      ->check(CLI::Range(0, 256));
  command->add_option("--rounds", a.options.rounds, "times that each way is measured (1)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--folder", a.options.folder,
                      "for datasets and runs, which remain; a temporary one by default");
  add_set(*command, a.set);
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_feeding(world, *arguments); }};
}

}  // namespace dlrm
