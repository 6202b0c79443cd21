#include "text_items.h"

namespace dlrm {
namespace {

enum class Kind { kItem, kBlank, kUnclear };

Kind kind_of(std::string_view item) {
  for (size_t i = 0; i < item.size(); ++i) {
    const auto byte = static_cast<uint8_t>(item[i]);
    if (byte > 0x20 && byte < 0x7f) return Kind::kItem;
    if (byte == ' ' || byte == '\t') continue;
    // White space beyond ASCII begins with 0xc2, 0xe1, 0xe2 or the bytes 0xe3 0x80.
    const bool ideograph = byte == 0xe3 && i + 1 < item.size() && item[i + 1] != '\x80';
    const bool letter = (byte >= 0xc3 && byte <= 0xdf) || (byte >= 0xe4 && byte <= 0xee);
    return ideograph || letter ? Kind::kItem : Kind::kUnclear;
  }
  return Kind::kBlank;
}

}  // namespace

std::optional<TextItems> split_items(View<const std::string_view> texts,
                                     std::string_view separator) {
  std::vector<std::string_view> items;
  TextItems result;
  result.offsets.reserve(texts.size() + 1);
  result.offsets.push_back(0);
  for (std::string_view text : texts) {
    for (bool more = true; more;) {
      const size_t end = text.find(separator);
      more = end != std::string_view::npos;
      const std::string_view item = text.substr(0, end);
      const Kind kind = kind_of(item);
      if (kind == Kind::kUnclear) return std::nullopt;
      if (kind == Kind::kItem) items.push_back(item);
      if (more) text.remove_prefix(end + separator.size());
    }
    result.offsets.push_back(static_cast<int64_t>(items.size()));
  }
  result.numbers.resize(items.size());
  result.table.number_all(items, 0, result.numbers.data());
  return result;
}

}  // namespace dlrm
