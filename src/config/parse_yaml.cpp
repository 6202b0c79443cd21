#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

#include "node.h"

namespace dlrm {
namespace {

using MutableNode = std::shared_ptr<Node>;

constexpr size_t kLongestKey = 200;
// Aliases and merges repeat what a file writes once. These bound the tree that they make.
constexpr int kDeepest = 500;
constexpr size_t kMostMerged = 1000000;

/// Builds the tree from the parser's events, because yaml-cpp's own nodes keep neither anchors nor
/// repeated keys.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const std::string> source, bool is_override)
      : source_(std::move(source)), is_override_(is_override) {}

  NodePtr root() const { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node_at(mark, Node::Kind::kNull), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw usage_error(
          "{}: an alias (*) of what contains it; it can only repeat what ended before",
          place(mark).text());
    }
    add(found->second.node, 0, found->second.depth);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const MutableNode node = node_at(mark, Node::Kind::kScalar);
    node->text = value;
    node->quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    add(node, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back({node_at(mark, Node::Kind::kList), anchor, 1, {}, {}});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back({node_at(mark, Node::Kind::kMap), anchor, 1, {}, {}});
  }
  void OnMapEnd() override {
    apply_merges(open_.back());
    close();
  }

 private:
  struct Open {
    MutableNode node;
    YAML::anchor_t anchor;
    int depth;
    NodePtr key;                            // key that was read and waits for its value
    std::map<std::string, size_t> indices;  // positions of the keys so far; npos for a merge
  };

  struct Anchored {
    NodePtr node;
    int depth;
  };

  YamlPlace place(const YAML::Mark& mark) const {
    if (is_override_) return {source_, 0, true};
    return {source_, mark.line + 1, false};
  }
  MutableNode node_at(const YAML::Mark& mark, Node::Kind kind) const {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->place = place(mark);
    return node;
  }

  void close() {
    const Open done = std::move(open_.back());
    open_.pop_back();
    add(done.node, done.anchor, done.depth);
  }

  void add(const NodePtr& node, YAML::anchor_t anchor, int depth = 1) {
    if (depth > kDeepest) {
      throw usage_error("{}: not valid YAML: nested more than {} deep", node->place.text(),
                        kDeepest);
    }
    if (anchor != 0) anchors_[anchor] = {node, depth};
    if (open_.empty()) {
      root_ = node;
      return;
    }
    Open& top = open_.back();
    top.depth = std::max(top.depth, depth + 1);
    if (top.node->is_list()) {
      top.node->items.push_back(node);
    } else if (!top.key) {
      take_key(top, node);
    } else {
      top.node->entries.push_back({top.key->text, top.key->place, node});
      top.key = nullptr;
    }
  }

  static void take_key(Open& map, const NodePtr& key) {
    if (!key->is_scalar()) {
      throw usage_error("{}: a key is {}; keys are words", key->place.text(), key->shown());
    }
    if (key->text.size() > kLongestKey || has_control_character(key->text)) {
      throw usage_error("{}: {} is no key: needs at most {} characters, none of them control ones",
                        key->place.text(), key->shown(), kLongestKey);
    }
    const auto [earlier, is_new] = map.indices.emplace(key->text, map.node->entries.size());
    if (!is_new) {
      throw usage_error("{}: key {} is written twice, first at {}; write it once",
                        key->place.text(), key->text,
                        map.node->entries[earlier->second].place.text());
    }
    map.key = key;
  }

  // Adds merged keys that the map does not have itself. If several maps are merged, the earlier one
  // wins.
  void apply_merges(Open& map) {
    const auto merge = map.indices.find("<<");
    if (merge == map.indices.end()) return;
    std::vector<Entry>& entries = map.node->entries;
    const Entry merged = entries[merge->second];
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(merge->second));
    std::set<std::string> present;
    for (const Entry& entry : entries) present.insert(entry.key);
    std::vector<NodePtr> sources{merged.value};
    if (merged.value->is_list()) sources = merged.value->items;
    for (const NodePtr& source : sources) {
      if (!source->is_map()) {
        throw usage_error("{}: << merges {}; it takes a map or a list of maps",
                          source->place.text(), source->shown());
      }
      merged_ += source->entries.size();
      if (merged_ > kMostMerged) {
        throw usage_error("{}: << merges more than {} keys in all", merged.place.text(),
                          kMostMerged);
      }
      for (const Entry& entry : source->entries) {
        if (present.insert(entry.key).second) entries.push_back(entry);
      }
    }
  }

  std::shared_ptr<const std::string> source_;
  bool is_override_;
  NodePtr root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  size_t merged_ = 0;
};

}  // namespace

NodePtr parse_yaml(const std::string& text, const std::string& source, bool is_override) {
  const auto name = std::make_shared<const std::string>(source);
  TreeBuilder builder(name, is_override);
  TreeBuilder rest(name, is_override);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      auto empty = std::make_shared<Node>();
      empty->place = {name, 0, is_override};
      return empty;
    }
    if (parser.HandleNextDocument(rest)) {
      throw usage_error("{}: a second YAML document begins (---); a config is one",
                        rest.root() ? rest.root()->place.text() : source);
    }
  } catch (const YAML::DeepRecursion& error) {
    throw usage_error("{}: not valid YAML: nested more than {} deep", source, error.depth());
  } catch (const YAML::Exception& error) {
    const YamlPlace place{name, is_override || error.mark.is_null() ? 0 : error.mark.line + 1,
                          false};
    // The parser quotes the character that it cannot read.
    throw usage_error("{}: not valid YAML: {}", place.text(), printable(error.msg, 200));
  }
  return builder.root();
}

}  // namespace dlrm
