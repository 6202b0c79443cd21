#pragma once
#include <CLI/CLI.hpp>

namespace dlrm {

/// Each adds one subcommand of dlrm-data; its work is done in the subcommand's callback, which
/// throws Error on bad input.
void add_criteo_command(CLI::App& app);
void add_synth_command(CLI::App& app);
void add_inspect_command(CLI::App& app);

}  // namespace dlrm
