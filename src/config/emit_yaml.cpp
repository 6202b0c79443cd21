#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

#include "node.h"

namespace dlrm {
namespace {

bool is_plain_safe(const std::string& text) {
  static constexpr std::string_view kNulls[] = {"~", "null", "Null", "NULL"};
  if (text.empty() || std::find(std::begin(kNulls), std::end(kNulls), text) != std::end(kNulls)) {
    return false;
  }
  const auto is_safe = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-' || c == '+';
  };
  if (!std::all_of(text.begin(), text.end(), is_safe)) return false;
  return text[0] != '-' || (text.size() > 1 && std::isdigit(static_cast<unsigned char>(text[1])));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string scalar(const std::string& text) { return is_plain_safe(text) ? text : quoted(text); }

bool is_list_of_maps(const Node& node) {
  return node.is_list() && !node.items.empty() && node.items[0]->is_map();
}

std::string emit_section(const Node& map) {
  std::string out;
  for (const Entry& entry : map.entries) {
    if (!is_list_of_maps(*entry.value)) {
      out += fmt::format("  {}: {}\n", scalar(entry.key), emit_inline(*entry.value));
      continue;
    }
    out += fmt::format("  {}:\n", scalar(entry.key));
    for (const NodePtr& item : entry.value->items) {
      out += fmt::format("    - {}\n", emit_inline(*item));
    }
  }
  return out;
}

}  // namespace

std::string emit_inline(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar:
      return scalar(node.text);
    case Node::Kind::kList: {
      std::string out;
      for (const NodePtr& item : node.items) {
        out += (out.empty() ? "" : ", ") + emit_inline(*item);
      }
      return "[" + out + "]";
    }
    case Node::Kind::kMap:
      break;
  }
  std::string out;
  for (const Entry& entry : node.entries) {
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", scalar(entry.key),
                       emit_inline(*entry.value));
  }
  return "{" + out + "}";
}

std::string emit_document(const Node& map) {
  std::string out;
  for (const Entry& entry : map.entries) {
    if (entry.value->is_map()) {
      out += fmt::format("{}:\n{}", scalar(entry.key), emit_section(*entry.value));
    } else {
      out += fmt::format("{}: {}\n", scalar(entry.key), emit_inline(*entry.value));
    }
  }
  return out;
}

}  // namespace dlrm
