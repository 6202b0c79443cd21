#pragma once
#include <ctime>
#include <string>

namespace dlrm {

/// A time as ISO 8601 in UTC: "2026-01-31T12:00:00Z".
std::string utc_text(std::time_t time);

}  // namespace dlrm
