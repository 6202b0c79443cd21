#include "schema.h"

#include <algorithm>

#include "dlrm/core/error.h"

namespace dlrm {

MapKeys::Field& MapKeys::add(Field field) {
  fields_.push_back(std::move(field));
  return fields_.back();
}

void MapKeys::read(const Node& node, const std::string& path, void* owner) const {
  if (!node.is_map() && !node.is_null()) reject(node, path, "a map");
  for (const Entry& entry : node.entries) {
    const auto has_its_name = [&](const Field& field) { return field.name == entry.key; };
    if (std::none_of(fields_.begin(), fields_.end(), has_its_name)) {
      reject_unknown(entry, path, names());
    }
  }
  for (const Field& field : fields_) read_field(field, node, path, owner);
  if (then_) then_(node, path, owner);
}

NodePtr MapKeys::write(const void* owner) const {
  std::vector<Entry> entries;
  for (const Field& field : fields_) {
    if (field.is_omitted && field.is_omitted(owner)) continue;
    entries.push_back({field.name, {}, field.access->write(owner)});
  }
  return make_map(std::move(entries));
}

void MapKeys::document(const std::string& path, const void* defaults,
                       std::vector<KeyDoc>& rows) const {
  for (const Field& field : fields_) {
    const std::string key = dotted(path, field.name);
    const size_t first = rows.size();
    if (!field.is_section) {
      std::string shown = field.shown_default;
      if (field.is_required) shown = "required";
      if (shown.empty()) shown = emit_inline(*field.access->write(defaults));
      rows.push_back({key, shown, field.allowed, field.meaning, false});
    }
    field.access->document(key, defaults, rows);
    for (size_t i = first; i < rows.size() && field.can_change; ++i) rows[i].may_change = true;
  }
}

std::vector<std::string> MapKeys::names() const {
  std::vector<std::string> out;
  for (const Field& field : fields_) out.push_back(field.name);
  return out;
}

void MapKeys::read_field(const Field& field, const Node& node, const std::string& path,
                         void* owner) const {
  const std::string key = dotted(path, field.name);
  if (const NodePtr value = node.find(field.name)) return field.access->read(*value, key, owner);
  if (field.is_required) {
    throw usage_error("{}: {} is missing: needs {}", node.place.text(), key, field.allowed);
  }
  if (!field.is_section) return;
  Node absent;
  absent.place = node.place;
  field.access->read(absent, key, owner);
}

}  // namespace dlrm
