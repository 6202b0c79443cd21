#pragma once
#include <string>
#include <string_view>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

namespace dlrm {

/// Writes the file that `--output` names. Does nothing if `path` is empty. Throws usage_error if
/// the file cannot be written.
inline void write_output(const std::string& path, std::string_view text) {
  if (path.empty()) return;
  try {
    write_text(path, text);
  } catch (const Error& error) {
    throw usage_error("--output: {}", error.what());
  }
}

}  // namespace dlrm
