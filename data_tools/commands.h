#pragma once
namespace CLI {
class App;
}

namespace dlrm {

/// The program dlrm-data. Returns its exit code.
int run_dlrm_data(int argc, char** argv);

/// Each function adds one subcommand of dlrm-data. The subcommand's callback does the work and
/// throws Error for bad input.
void add_criteo_command(CLI::App& app);
void add_synth_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_python_commands(CLI::App& app);
void add_shuffle_command(CLI::App& app);

}  // namespace dlrm
