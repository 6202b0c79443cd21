#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dlrm {

/// The place where a part of the config was written: `file:line`, or the --set option.
struct YamlPlace {
  std::shared_ptr<const std::string> source;
  int line = 0;  ///< from 1; 0 = the source as a whole
  bool from_override = false;

  std::string text() const;
};

struct Node;
using NodePtr = std::shared_ptr<const Node>;

struct Entry {
  std::string key;
  YamlPlace place;
  NodePtr value;
};

/// A parsed part of YAML that remembers where it was written. Immutable once built, so that
/// anchored parts are shared.
struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  YamlPlace place;
  std::string text;            ///< scalar
  bool quoted = false;         ///< scalar written in quotes: text, never a number or a boolean
  std::vector<NodePtr> items;  ///< list
  std::vector<Entry> entries;  ///< map, in the order written, keys unique

  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_null() const { return kind == Kind::kNull; }
  /// Returns the value of `key`, or null if there is none.
  NodePtr find(std::string_view key) const;
  /// The value as errors quote it: `"abc"`, `the quoted text "1"`, `a list`, `a map`, `empty`.
  std::string shown() const;
};

NodePtr make_scalar(std::string text);
NodePtr make_list(std::vector<NodePtr> items);
NodePtr make_map(std::vector<Entry> entries);

/// The place where the value of the dotted `path` below `root` was written. If it was not written,
/// the place of the nearest enclosing map.
YamlPlace place_of(const Node& root, std::string_view path);

/// Reads one YAML document. Resolves anchors and applies merge keys (<<). Throws for a syntax
/// error, a key that is not a word, a repeated key, an alias of an enclosing node, and more than
/// one document.
NodePtr parse_yaml(const std::string& text, const std::string& source, bool is_override = false);

/// Writes a map as YAML: sections as blocks, and each key of a section on one line.
std::string emit_document(const Node& map);

/// Writes a node in YAML's one-line form.
std::string emit_inline(const Node& node);

}  // namespace dlrm
