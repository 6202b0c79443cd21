#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"
#include "dlrm/plan/plan.h"

#include "memory_option.h"
#include "report_plan.h"
#include "scan_data.h"
#include "write_output.h"

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr int64_t kMostBatches = int64_t{1} << 53;

struct Arguments {
  std::string config;
  int ranks = 1;
  int ranks_per_node = 0;
  std::string machine;
  double device_memory = 0;
  double host_memory = 0;
  std::string output;
  std::vector<std::string> set;
  bool scans = false;
  int64_t scanned = 0;
};

void declare(CLI::App& app, Arguments& arguments) {
  app.set_version_flag("--version", std::string("dlrm-plan ") + DLRM_VERSION);
  app.add_option("config", arguments.config, "the run's YAML config")->required();
  app.add_option("--ranks", arguments.ranks, "number of ranks to plan for")
      ->required()
      ->check(CLI::Range(1, dlrm::kMostRanks));
  app.add_option("--ranks-per-node", arguments.ranks_per_node, "number of ranks on each node")
      ->check(CLI::Range(1, dlrm::kMostRanks));
  app.add_option("--machine", arguments.machine,
                 "machine file, as sharding.machine; its ranks_per_node is the default of "
                 "--ranks-per-node");
  app.add_option("--device-memory", arguments.device_memory,
                 "GiB of device memory that a rank may use")
      ->check(dlrm::gibibytes());
  app.add_option("--host-memory", arguments.host_memory,
                 "GiB of host memory that a rank may use in addition (device: cuda)")
      ->check(dlrm::gibibytes());
  app.add_option("--output", arguments.output, "write the plan to this file, as plan.json");
  app.add_flag("--scan-data", arguments.scans,
               "read the batches of the run, and say what cached tables would do with them");
  app.add_option("--scan-batches", arguments.scanned, "at most so many of them (0: all)")
      ->check(CLI::Range(int64_t{0}, kMostBatches));
  app.add_option("--set", arguments.set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
}

void run(const Arguments& arguments) {
  dlrm::RunConfig given = dlrm::load_config(arguments.config, arguments.set);
  if (!arguments.machine.empty()) given.sharding.machine = arguments.machine;
  const auto [config, plan] = dlrm::report_plan(
      given, arguments.ranks,
      {arguments.device_memory * kGiB, arguments.ranks_per_node, arguments.host_memory * kGiB});
  fmt::print("{}", arguments.scans ? dlrm::scan_data(config, plan, arguments.scanned)
                                   : dlrm::feasibility(config, plan));
  dlrm::write_output(arguments.output, dlrm::to_json(plan, config.model));
}

int code(dlrm::ExitCode exit) { return static_cast<int>(exit); }

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Prints how the tables of a config are sharded over ranks, and the memory that they need.",
      "dlrm-plan");
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
    run(arguments);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "error: {} (see dlrm-plan --help)\n", error.what());
    return code(dlrm::ExitCode::kUsage);
  } catch (const dlrm::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return code(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return code(dlrm::ExitCode::kFailure);
  }
  return code(dlrm::ExitCode::kDone);
}
