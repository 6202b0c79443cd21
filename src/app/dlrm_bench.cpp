#include <CLI/CLI.hpp>

#include "dlrm/train/session.h"
#include "dlrm/train/spin_limit.h"

#include "bench_commands/command.h"

int main(int argc, char** argv) {
  using namespace dlrm;
  limit_spinning(argv);
  World world(&argc, &argv);
  CLI::App app{"Measures the training of recommendation models (DLRM) and the machine.",
               "dlrm-bench"};
  app.set_version_flag("--version", DLRM_VERSION);
  app.require_subcommand(1);
  const std::vector<BenchCommand> commands = {
      limits_command(app),  machine_command(app),  batch_sweep_command(app),
      kernels_command(app), cache_command(app),    infer_command(app),
      feeding_command(app), simulate_command(app), timeline_command(app)};
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
    for (const BenchCommand& command : commands) {
      if (!command.app->parsed()) continue;
      if (world.size() != 1 && !command.several_ranks) {
        throw usage_error("{} needs one process; mpirun started more", command.app->get_name());
      }
      command.run(world);
    }
    return ExitCode::kDone;
  });
}
