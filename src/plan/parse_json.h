#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace dlrm {

/// The text of the file that `key` of the config names, which must be `what`. Errors are
/// usage_errors.
std::string read_named(const std::string& path, size_t longest, const char* key, const char* what);

/// Parses the text of a file. A usage_error names `path`, line and column.
nlohmann::json parse_json(const std::string& path, const std::string& text);

}  // namespace dlrm
