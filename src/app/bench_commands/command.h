#pragma once
#include <functional>

#include <CLI/CLI.hpp>

#include "dlrm/comm/world.h"

namespace dlrm {

/// A subcommand of dlrm-bench.
struct BenchCommand {
  CLI::App* app;                    ///< where its options are declared
  std::function<void(World&)> run;  ///< called on every rank after the command line was read
  bool several_ranks = false;       ///< otherwise it is refused under mpirun with several ranks
};

/// Each declares one subcommand with its options.
BenchCommand limits_command(CLI::App& app);
BenchCommand machine_command(CLI::App& app);
BenchCommand batch_sweep_command(CLI::App& app);
BenchCommand kernels_command(CLI::App& app);
BenchCommand cache_command(CLI::App& app);
BenchCommand infer_command(CLI::App& app);
BenchCommand feeding_command(CLI::App& app);
BenchCommand simulate_command(CLI::App& app);
BenchCommand timeline_command(CLI::App& app);

}  // namespace dlrm
