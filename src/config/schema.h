#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec.h"

namespace dlrm {

/// Throws for an unknown key of the map at `path`. Names the place where it was written and the
/// nearest of `known`.
[[noreturn]] void reject_unknown(const Entry& entry, const std::string& path,
                                 const std::vector<std::string>& known);

inline std::string dotted(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// The keys of one map of type T, without the type: T stays a void pointer, so that the compiler
/// makes this code once for all maps.
class MapKeys {
 public:
  /// Reads and writes the value of one key in the object at `owner`.
  struct Access {
    virtual ~Access() = default;
    virtual void read(const Node& node, const std::string& path, void* owner) const = 0;
    virtual NodePtr write(const void* owner) const = 0;
    /// Adds rows of the reference for the keys inside the value, if it has any.
    virtual void document(const std::string& path, const void* owner,
                          std::vector<KeyDoc>& rows) const = 0;
  };

  struct Field {
    std::string name;
    std::string allowed;
    std::string meaning;
    std::shared_ptr<const Access> access;
    bool is_required = false;
    bool is_section = false;
    bool can_change = false;
    std::string shown_default;  // instead of the value
    std::function<bool(const void*)> is_omitted;
  };

  void read(const Node& node, const std::string& path, void* owner) const;
  NodePtr write(const void* owner) const;
  void document(const std::string& path, const void* defaults, std::vector<KeyDoc>& rows) const;
  std::vector<std::string> names() const;

 protected:
  Field& add(Field field);
  std::function<void(const Node&, const std::string&, void*)> then_;

 private:
  void read_field(const Field& field, const Node& node, const std::string& path, void* owner) const;

  std::vector<Field> fields_;
};

/// The keys of one map, each declared once. Reading, writing, errors and the reference all use
/// these declarations. Defaults are the values of the object before it is read.
template <class T>
class Schema : private MapKeys {
 public:
  /// What may be said of a key after its declaration.
  class Key {
   public:
    explicit Key(Field& field) : field_(field) {}
    Key& required() { return field_.is_required = true, *this; }
    /// Allows a resumed run to have another value.
    Key& may_change() { return field_.can_change = true, *this; }
    /// Omits the key on writing if `condition` holds, because it has no effect then.
    Key& omit_if(bool (*condition)(const T&)) {
      field_.is_omitted = [condition](const void* owner) { return condition(of(owner)); };
      return *this;
    }
    Key& default_shown(std::string_view text) { return field_.shown_default = text, *this; }

   private:
    Field& field_;
  };

  /// `member` gives the value of a T. It is a pointer to a member, or a function of T&.
  template <class Member, class V>
  Key key(std::string_view name, Member member, const Codec<V>& codec, std::string_view meaning) {
    struct Value final : Access {
      Value(Member m, const Codec<V>& c) : member(m), codec(c) {}
      void read(const Node& node, const std::string& path, void* owner) const override {
        codec.read(node, path, std::invoke(member, *static_cast<T*>(owner)));
      }
      NodePtr write(const void* owner) const override {
        return codec.write(std::invoke(member, of(owner)));
      }
      void document(const std::string& path, const void* owner,
                    std::vector<KeyDoc>& rows) const override {
        if (codec.document) codec.document(path, std::invoke(member, of(owner)), rows);
      }
      Member member;
      Codec<V> codec;
    };
    Field field;
    field.name = name;
    field.allowed = codec.allowed;
    field.meaning = meaning;
    field.is_section = codec.is_section;
    // A pointer of the base's type, so that only one kind of shared_ptr is made.
    field.access.reset(static_cast<const Access*>(new Value(member, codec)));
    return Key(add(std::move(field)));
  }

  /// Calls `step` after the keys of a map have been read. For keys that depend on others.
  void then(std::function<void(const Node&, const std::string&, T&)> step) {
    then_ = [step = std::move(step)](const Node& node, const std::string& path, void* owner) {
      step(node, path, *static_cast<T*>(owner));
    };
  }

  void read(const Node& node, const std::string& path, T& out) const {
    MapKeys::read(node, path, &out);
  }
  NodePtr write(const T& value) const { return MapKeys::write(&value); }
  void document(const std::string& path, const T& defaults, std::vector<KeyDoc>& rows) const {
    MapKeys::document(path, &defaults, rows);
  }
  using MapKeys::names;

 private:
  static const T& of(const void* owner) { return *static_cast<const T*>(owner); }
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
