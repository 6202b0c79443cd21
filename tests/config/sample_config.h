#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"

#include "error_of.h"

namespace dlrm {

/// The shortest valid config. Tests know its line numbers.
inline const std::string kSmallYaml =
    "model:\n"                                           // 1
    "  dense_features: 13\n"                             // 2
    "  top_mlp: [8, 1]\n"                                // 3
    "  tables:\n"                                        // 4
    "    - {name: C1, rows: 100}\n"                      // 5
    "    - {name: t, count: 3, rows: 50, hotness: 2}\n"  // 6
    "data: {train: train.h5}\n"                          // 7
    "train: {global_batch_size: 64}\n";                  // 8

inline RunConfig small_config(const std::vector<std::string>& overrides = {}) {
  return parse_config(kSmallYaml, "small.yaml", overrides);
}

/// The text of the usage error for `yaml`; empty if there is none.
inline std::string error_of(const std::string& yaml,
                            const std::vector<std::string>& overrides = {}) {
  return usage_error_of([&] { parse_config(yaml, "small.yaml", overrides); });
}

inline std::filesystem::path repository_root() { return DLRM_SOURCE; }

inline std::string config_path(const std::string& name) {
  return (repository_root() / "configs" / name).string();
}

/// Every file of configs/.
inline std::vector<std::string> all_config_paths() {
  std::vector<std::string> out;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(repository_root() / "configs")) {
    if (entry.path().extension() == ".yaml") out.push_back(entry.path().string());
  }
  return out;
}

}  // namespace dlrm
