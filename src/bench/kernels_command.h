#pragma once
#include <string>

#include <CLI/CLI.hpp>

#include "dlrm/comm/communicator.h"

#include "kernels.h"

namespace dlrm::bench {

/// `dlrm-bench kernels`: its options, and what it does.
struct KernelsCommand {
  KernelOptions options;
  std::string device = "auto";
  int threads = 0;
  bool tf32 = true;
  std::string output;
  CLI::App* command = nullptr;

  void declare(CLI::App& app);
  /// Prints the table and gives the JSON.
  std::string run(Communicator& comm);
};

}  // namespace dlrm::bench
