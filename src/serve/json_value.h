#pragma once
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace dlrm::serve {

/// Throws usage_error if the text is not JSON.
nlohmann::json parse_json(std::string_view text);

/// The value in a message: not too long, and valid UTF-8.
std::string shown(const nlohmann::json& value);

/// The text as JSON, in quotes.
std::string json_text(std::string_view text);

}  // namespace dlrm::serve
