#include <yaml-cpp/yaml.h>

#include "node.h"

namespace dlrm {
namespace {

void emit(YAML::Emitter& out, const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out << YAML::Null;
      return;
    case Node::Kind::kScalar:
      out << node.text;
      return;
    case Node::Kind::kList:
      out << YAML::Flow << YAML::BeginSeq;
      for (const NodePtr& item : node.items) emit(out, *item);
      out << YAML::EndSeq;
      return;
    case Node::Kind::kMap:
      out << YAML::Flow << YAML::BeginMap;
      for (const Entry& entry : node.entries) {
        out << YAML::Key << entry.key << YAML::Value;
        emit(out, *entry.value);
      }
      out << YAML::EndMap;
      return;
  }
}

void emit_section_value(YAML::Emitter& out, const Node& node) {
  if (!node.is_list() || node.items.empty() || !node.items[0]->is_map()) {
    emit(out, node);
    return;
  }
  out << YAML::BeginSeq;
  for (const NodePtr& item : node.items) emit(out, *item);
  out << YAML::EndSeq;
}

}  // namespace

std::string emit_inline(const Node& node) {
  YAML::Emitter out;
  emit(out, node);
  return out.c_str();
}

std::string emit_document(const Node& map) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Entry& entry : map.entries) {
    out << YAML::Key << entry.key << YAML::Value;
    if (!entry.value->is_map() || entry.value->entries.empty()) {
      emit(out, *entry.value);
      continue;
    }
    out << YAML::BeginMap;
    for (const Entry& inner : entry.value->entries) {
      out << YAML::Key << inner.key << YAML::Value;
      emit_section_value(out, *inner.value);
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace dlrm
