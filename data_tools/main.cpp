#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

#include "commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Generates, converts and checks datasets for dlrm-train.", "dlrm-data"};
  app.set_version_flag("--version", DLRM_VERSION);
  app.require_subcommand(1);
  dlrm::add_criteo_command(app);
  dlrm::add_import_command(app);
  dlrm::add_synth_command(app);
  dlrm::add_inspect_command(app);
  dlrm::add_shuffle_command(app);
  dlrm::remove_partial_files_on_signals();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "error: {} (see dlrm-data --help)\n", error.what());
    return static_cast<int>(dlrm::ExitCode::kUsage);
  } catch (const dlrm::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(dlrm::ExitCode::kFailure);
  }
  return 0;
}
