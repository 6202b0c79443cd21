#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/core/nearest.h"

#include "codec.h"

namespace dlrm {

/// Throws for an unknown key of the map at `path`. Names the place where it was written and the
/// nearest of `known`.
[[noreturn]] void reject_unknown(const Entry& entry, const std::string& path,
                                 const std::vector<std::string>& known);

inline std::string dotted(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// The keys of one map, each declared once. Reading, writing, errors and the reference all use
/// these declarations. Defaults are the values of the object before it is read.
template <class T>
class Schema {
 public:
  struct Field {
    std::string name;
    std::string allowed;
    std::string meaning;
    bool is_required = false;
    bool is_section = false;
    bool can_change = false;
    std::string shown_default;  // instead of the value
    std::function<void(const Node&, const std::string&, T&)> read;
    std::function<NodePtr(const T&)> write;
    std::function<void(const std::string&, const T&, std::vector<KeyDoc>&)> document;
    std::function<bool(const T&)> is_omitted = [](const T&) { return false; };

    Field& required() { return is_required = true, *this; }
    /// Allows a resumed run to have another value.
    Field& may_change() { return can_change = true, *this; }
    /// Omits the key on writing if `condition` holds, because it has no effect then.
    Field& omit_if(std::function<bool(const T&)> condition) {
      return is_omitted = std::move(condition), *this;
    }
    Field& default_shown(std::string text) { return shown_default = std::move(text), *this; }
  };

  /// `member` gives the value of a T. It is a pointer to a member, or a function of T&.
  template <class Member, class V>
  Field& key(const std::string& name, Member member, const Codec<V>& codec,
             const std::string& meaning) {
    Field field;
    field.name = name;
    field.allowed = codec.allowed;
    field.meaning = meaning;
    field.is_section = codec.is_section;
    field.read = [member, codec](const Node& node, const std::string& path, T& out) {
      codec.read(node, path, std::invoke(member, out));
    };
    field.write = [member, codec](const T& value) {
      return codec.write(std::invoke(member, value));
    };
    if (codec.document) {
      field.document = [member, codec](const std::string& path, const T& value,
                                       std::vector<KeyDoc>& rows) {
        codec.document(path, std::invoke(member, value), rows);
      };
    }
    fields_.push_back(std::move(field));
    return fields_.back();
  }

  /// Calls `step` after the keys of a map have been read. For keys that depend on others.
  void then(std::function<void(const Node&, const std::string&, T&)> step) {
    then_ = std::move(step);
  }

  void read(const Node& node, const std::string& path, T& out) const {
    if (!node.is_map() && !node.is_null()) reject(node, path, "a map");
    for (const Entry& entry : node.entries) {
      if (find(entry.key) == nullptr) reject_unknown(entry, path, names());
    }
    for (const Field& field : fields_) read_field(field, node, path, out);
    if (then_) then_(node, path, out);
  }

  NodePtr write(const T& value) const {
    std::vector<Entry> entries;
    for (const Field& field : fields_) {
      if (!field.is_omitted(value)) entries.push_back({field.name, {}, field.write(value)});
    }
    return make_map(std::move(entries));
  }

  void document(const std::string& path, const T& defaults, std::vector<KeyDoc>& rows) const {
    for (const Field& field : fields_) {
      const std::string key = dotted(path, field.name);
      const size_t first = rows.size();
      if (!field.is_section) {
        std::string shown = field.shown_default;
        if (field.is_required) shown = "required";
        if (shown.empty()) shown = emit_inline(*field.write(defaults));
        rows.push_back({key, shown, field.allowed, field.meaning, false});
      }
      if (field.document) field.document(key, defaults, rows);
      for (size_t i = first; i < rows.size() && field.can_change; ++i) rows[i].may_change = true;
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const Field& field : fields_) out.push_back(field.name);
    return out;
  }

 private:
  const Field* find(const std::string& name) const {
    for (const Field& field : fields_) {
      if (field.name == name) return &field;
    }
    return nullptr;
  }

  void read_field(const Field& field, const Node& node, const std::string& path, T& out) const {
    const std::string key = dotted(path, field.name);
    if (const NodePtr value = node.find(field.name)) return field.read(*value, key, out);
    if (field.is_required) {
      throw usage_error("{}: {} is missing: needs {}", node.place.text(), key, field.allowed);
    }
    if (!field.is_section) return;
    Node absent;
    absent.place = node.place;
    field.read(absent, key, out);
  }

  std::vector<Field> fields_;
  std::function<void(const Node&, const std::string&, T&)> then_;
};

/// A codec of a map with its own keys.
template <class T>
Codec<T> section(const Schema<T>& keys) {
  const auto schema = std::make_shared<const Schema<T>>(keys);  // codecs are copied often
  Codec<T> codec;
  codec.allowed = "a map";
  codec.is_section = true;
  codec.read = [schema](const Node& node, const std::string& key, T& out) {
    schema->read(node, key, out);
  };
  codec.write = [schema](const T& value) { return schema->write(value); };
  codec.document = [schema](const std::string& key, const T& value, std::vector<KeyDoc>& rows) {
    schema->document(key, value, rows);
  };
  return codec;
}

}  // namespace dlrm
