#include "parse_json.h"

#include <algorithm>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"

namespace dlrm {

std::string read_named(const std::string& path, size_t longest, const char* key, const char* what) {
  try {
    return read_text(path, longest);
  } catch (const Error& error) {
    throw usage_error("{}; {} must name a {}", error.what(), key, what);
  }
}

nlohmann::json parse_json(const std::string& path, const std::string& text) {
  using nlohmann::json;
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    const size_t at = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(at);
    const auto line = 1 + std::count(text.begin(), end, '\n');
    const size_t start = text.rfind('\n', at == 0 ? 0 : at - 1);
    const size_t column = start == std::string::npos || at == 0 ? at + 1 : at - start;
    throw usage_error("{}:{}:{}: not JSON (byte {})", path, line, column, at);
  } catch (const json::out_of_range&) {
    throw usage_error("{}: not JSON: a number is too large", path);
  }
}

}  // namespace dlrm
