#include "json_value.h"

#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

namespace dlrm::serve {

using nlohmann::json;

json parse_json(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    throw usage_error("not JSON: error at byte {}", error.byte);
  } catch (const json::exception&) {
    throw usage_error("not JSON: a number is out of range");
  }
}

std::string shown(const json& value) {
  constexpr size_t kMost = 40;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

}  // namespace dlrm::serve
