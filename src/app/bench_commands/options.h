#pragma once
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "dlrm/core/cpus.h"

#include "../memory_option.h"

namespace dlrm {

// Options that several subcommands of dlrm-bench have. Each function declares one of them.

inline void add_config(CLI::App& command, std::string& path) {
  command.add_option("CONFIG", path, "a training config")->required();
}

inline void add_set(CLI::App& command, std::vector<std::string>& set) {
  command.add_option("--set", set, "a.b.c=value: replaces one key of the config; repeatable")
      ->allow_extra_args(false);
}

inline void add_output(CLI::App& command, std::string& path) {
  command.add_option("--output", path, "write the JSON to this file");
}

inline void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "0: OMP_NUM_THREADS, or all CPUs if that is not set")
      ->check(CLI::Range(0, kMostThreads));
}

/// A duration of at most an hour. `what` ends with the default.
inline void add_seconds(CLI::App& command, double& seconds, const std::string& what,
                        const std::string& name = "--seconds") {
  command.add_option(name, seconds, what)->check(CLI::Range(0.0, 3600.0));
}

inline void add_device(CLI::App& command, std::string& device, const std::string& what) {
  command.add_option("--device", device, what)->check(CLI::IsMember({"cpu", "cuda", "auto"}));
}

inline void add_machine(CLI::App& command, std::string& file) {
  command.add_option("--machine", file, "machine file, as sharding.machine")->required();
}

inline void add_device_memory(CLI::App& command, double& gib) {
  command
      .add_option("--device-memory", gib, "GiB of device memory that the plan may use for a rank")
      ->check(gibibytes());
}

}  // namespace dlrm
