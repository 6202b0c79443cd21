#include "dlrm/config/memory_size.h"

#include <charconv>
#include <string>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr double kMostBytes = 1e9 * 0x1p40;

std::optional<double> bytes_of_unit(std::string_view unit) {
  if (unit == "KiB") return 0x1p10;
  if (unit == "MiB") return 0x1p20;
  if (unit == "GiB") return 0x1p30;
  if (unit == "TiB") return 0x1p40;
  return std::nullopt;
}

}  // namespace

std::optional<MemorySize> parsed_size(std::string_view text) {
  const size_t unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == 0 || unit_at == std::string_view::npos) return std::nullopt;
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + unit_at, amount);
  if (error != std::errc{} || end != text.data() + unit_at || amount <= 0) return std::nullopt;
  const std::string_view unit = text.substr(unit_at);
  if (unit == "%") {
    return amount <= 100 ? std::optional(MemorySize{amount / 100, true}) : std::nullopt;
  }
  const std::optional<double> bytes = bytes_of_unit(unit);
  if (!bytes || amount * *bytes > kMostBytes) return std::nullopt;
  return MemorySize{amount * *bytes, false};
}

double size_in_bytes(const std::string& size, double whole) {
  if (size.empty()) return whole;
  const std::optional<MemorySize> parsed = parsed_size(size);
  DLRM_CHECK(parsed.has_value(), "'{}' is no size", size);
  return parsed->is_share ? parsed->amount * whole : parsed->amount;
}

}  // namespace dlrm
