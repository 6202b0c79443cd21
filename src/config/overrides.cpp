#include "overrides.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

namespace dlrm {
namespace {

struct Override {
  std::string source;  // "--set a.b=c", as errors name it
  YamlPlace place;
  std::vector<std::string> path;
  NodePtr value;
};

std::vector<std::string> split(const std::string& key) {
  std::vector<std::string> out(1);
  for (const char c : key) {
    if (c == '.') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

bool is_segment(const std::string& text) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_allowed);
}

Override parsed(const std::string& text) {
  Override out;
  out.source = "--set " + printable(text, 200);
  const size_t equals = text.find('=');
  if (equals != std::string::npos) out.path = split(text.substr(0, equals));
  if (out.path.empty() || !std::all_of(out.path.begin(), out.path.end(), is_segment)) {
    throw usage_error("{}: needs the form a.b.c=value", out.source);
  }
  out.place = {std::make_shared<const std::string>(out.source), 0, true};
  out.value = parse_yaml(text.substr(equals + 1), out.source, true);
  return out;
}

std::string prefix_of(const Override& set, size_t depth) {
  return fmt::format("{}", fmt::join(set.path.begin(),
                                     set.path.begin() + static_cast<std::ptrdiff_t>(depth), "."));
}

std::optional<size_t> item_index(const Node& list, const std::string& segment) {
  size_t index = 0;
  const char* end = segment.data() + segment.size();
  const auto [stop, error] = std::from_chars(segment.data(), end, index);
  if (error == std::errc{} && stop == end && index < list.items.size()) return index;
  for (size_t i = 0; i < list.items.size(); ++i) {
    const NodePtr name = list.items[i]->find("name");
    if (name && name->text == segment) return i;
  }
  return std::nullopt;
}

NodePtr replaced(const NodePtr& node, const Override& set, size_t depth);

NodePtr replaced_in_list(const Node& list, const Override& set, size_t depth) {
  const std::string& segment = set.path[depth];
  const auto index = item_index(list, segment);
  if (!index) {
    throw usage_error("{}: {} ({}) has no item {}: needs a number below {}, or an item's name",
                      set.source, prefix_of(set, depth), list.place.text(), segment,
                      list.items.size());
  }
  auto copy = std::make_shared<Node>(list);
  copy->items[*index] = replaced(list.items[*index], set, depth + 1);
  return copy;
}

NodePtr replaced_in_map(const Node& map, const Override& set, size_t depth) {
  const std::string& segment = set.path[depth];
  auto copy = std::make_shared<Node>(map);
  for (Entry& entry : copy->entries) {
    if (entry.key != segment) continue;
    if (depth + 1 == set.path.size()) entry.place = set.place;
    entry.value = replaced(entry.value, set, depth + 1);
    return copy;
  }
  Node absent;
  absent.place = set.place;
  copy->entries.push_back(
      {segment, set.place, replaced(std::make_shared<const Node>(absent), set, depth + 1)});
  return copy;
}

NodePtr replaced(const NodePtr& node, const Override& set, size_t depth) {
  if (depth == set.path.size()) return set.value;
  if (node->is_list()) return replaced_in_list(*node, set, depth);
  if (node->is_scalar()) {
    throw usage_error("{}: {} is {} ({}), which has nothing inside; set it as a whole", set.source,
                      prefix_of(set, depth), node->shown(), node->place.text());
  }
  Node map = *node;
  map.kind = Node::Kind::kMap;
  return replaced_in_map(map, set, depth);
}

// Returns the root without train.<name> if the file, and no override, wrote it.
NodePtr without_in_train(const NodePtr& root, const std::string& name) {
  auto out = std::make_shared<Node>(*root);
  for (Entry& section : out->entries) {
    if (section.key != "train") continue;
    auto train = std::make_shared<Node>(*section.value);
    std::erase_if(train->entries, [&](const Entry& entry) {
      return entry.key == name && !entry.place.from_override;
    });
    section.value = train;
  }
  return out;
}

}  // namespace

NodePtr with_override(const NodePtr& root, const std::string& override_text) {
  const Override set = parsed(override_text);
  const NodePtr out = replaced(root, set, 0);
  if (set.path == std::vector<std::string>{"train", "steps"}) {
    return without_in_train(out, "epochs");
  }
  if (set.path == std::vector<std::string>{"train", "epochs"}) {
    return without_in_train(out, "steps");
  }
  return out;
}

}  // namespace dlrm
