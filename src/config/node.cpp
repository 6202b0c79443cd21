#include "node.h"

#include <utility>

#include <fmt/format.h>

#include "dlrm/core/printable.h"

namespace dlrm {

std::string YamlPlace::text() const {
  const std::string& name = source ? *source : "";
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

NodePtr Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return entry.value;
  }
  return nullptr;
}

std::string Node::shown() const {
  constexpr size_t kLongest = 60;
  switch (kind) {
    case Kind::kNull:
      return "empty";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  return fmt::format("{}\"{}\"", quoted ? "the quoted text " : "", printable(text, kLongest));
}

NodePtr make_scalar(std::string text) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kScalar;
  node->text = std::move(text);
  return node;
}

NodePtr make_list(std::vector<NodePtr> items) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kList;
  node->items = std::move(items);
  return node;
}

NodePtr make_map(std::vector<Entry> entries) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kMap;
  node->entries = std::move(entries);
  return node;
}

YamlPlace place_of(const Node& root, std::string_view path) {
  YamlPlace place = root.place;
  const Node* node = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const std::string_view segment = path.substr(0, dot);
    const Entry* found = nullptr;
    for (const Entry& entry : node->entries) {
      if (entry.key == segment) found = &entry;
    }
    if (found == nullptr) break;
    place = found->place;
    node = found->value.get();
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return place;
}

}  // namespace dlrm
