#include <algorithm>
#include <cmath>

#include "dlrm/core/error.h"
#include "dlrm/encode/canonical.h"

#include "keys.h"

namespace dlrm {
namespace {

using Kind = Value::Kind;

bool is_blank(std::string_view item) {
  if (item.empty()) return true;
  const auto first = static_cast<uint8_t>(item[0]);
  if (first > ' ' && first < 0x7f) return false;
  return trimmed(item).empty();
}

}  // namespace

void append_items(const Preprocessing::List& list, const Value& value, std::vector<Value>& items) {
  if (value.kind != Kind::kText) {
    const bool missing =
        value.kind == Kind::kMissing || (value.kind == Kind::kNumber && std::isnan(value.number));
    if (!missing) items.push_back(value);
    return;
  }
  if (!list.separator) throw usage_error("{} is a text; needs a list", shown(value));
  std::string_view text = value.text;
  for (bool more = true; more;) {
    const size_t end = text.find(*list.separator);
    more = end != std::string_view::npos;
    const std::string_view item = text.substr(0, end);
    if (!is_blank(item)) items.push_back({Kind::kText, 0, 0, item});
    if (more) text.remove_prefix(end + list.separator->size());
  }
}

std::pair<size_t, size_t> kept_items(const Preprocessing::List& list, size_t count) {
  const auto kept = std::min<size_t>(count, static_cast<size_t>(list.cap));
  const size_t begin = list.keeps_last ? count - kept : 0;
  return {begin, begin + kept};
}

}  // namespace dlrm
