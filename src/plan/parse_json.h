#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace dlrm {

/// Parses the text of a file. A usage_error names `path`, line and column.
nlohmann::json parse_json(const std::string& path, const std::string& text);

}  // namespace dlrm
