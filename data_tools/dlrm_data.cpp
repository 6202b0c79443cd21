#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "dlrm/core/error.h"

#include "commands.h"

namespace dlrm {

int run_dlrm_data(int argc, char** argv) {
  CLI::App app{"Generates, converts and checks datasets for dlrm-train, and exports models.",
               "dlrm-data"};
  app.set_version_flag("--version", DLRM_VERSION);
  app.require_subcommand(1);
  add_criteo_command(app);
  add_python_commands(app);
  add_synth_command(app);
  add_inspect_command(app);
  add_shuffle_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "error: {} (see dlrm-data --help)\n", error.what());
    return static_cast<int>(ExitCode::kUsage);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(ExitCode::kFailure);
  }
  return 0;
}

}  // namespace dlrm
