#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "node.h"

namespace dlrm {

/// One row of the key reference.
struct KeyDoc {
  std::string key;
  std::string default_value;
  std::string allowed;
  std::string meaning;
  bool may_change = false;  ///< a resumed run may have another value
};

/// Reads and writes values of one kind as YAML.
template <class V>
struct Codec {
  std::string allowed;  ///< the allowed values, as the reference and errors describe them
  /// Reads a value into `out`. `key` is the dotted name for errors.
  std::function<void(const Node& node, const std::string& key, V& out)> read;
  std::function<NodePtr(const V&)> write;
  /// Adds rows of the reference for the keys inside, with `value` as defaults. Null for a codec
  /// without keys.
  std::function<void(const std::string& key, const V& value, std::vector<KeyDoc>& rows)> document;
  bool is_section = false;  ///< a map that is read even if absent, to find missing required keys
};

/// Throws `place: key is <value>: needs <allowed>`.
[[noreturn]] void reject(const Node& node, const std::string& key, const std::string& needs);

/// A whole number in [lo, hi]; 1e6 and 65536.0 are whole, 1.5 is not.
template <class Int>
Codec<Int> whole_number(Int lo, Int hi);
/// The same, or the word auto, which is read as `automatic`.
Codec<int64_t> whole_number_or_auto(int64_t lo, int64_t hi, int64_t automatic);
/// A finite number in [lo, hi], or in [lo, hi) if `open_above`.
Codec<double> real_number(double lo, double hi, bool open_above = false);
Codec<bool> boolean();
/// A path without control characters. `${env:NAME}` in it stands for that environment variable.
Codec<std::string> path_text();
/// The same, or empty.
Codec<std::string> optional_path(const std::string& allowed = "a path, or empty");
/// A path, or a list of them. Empty text is an empty list. A list of one is written as text.
Codec<std::vector<std::string>> path_list();
/// A name of a table or feature: letters, digits, _ - and dots. It must not begin with a dot,
/// because it also names groups and files.
Codec<std::string> name_text();
/// One of a few words.
Codec<std::string> word(const std::vector<std::string>& words);
/// An amount of memory, for example 64MiB or 10%.
Codec<std::string> memory_size(bool may_be_empty);
/// A list of whole numbers in [lo, hi], with `shortest` to `longest` items.
Codec<std::vector<int64_t>> whole_numbers(int64_t lo, int64_t hi, size_t shortest, size_t longest);

/// "a, b, c"
std::string joined(const std::vector<std::string>& words);

/// Words and the numbers that they stand for, in the order of the reference.
using NumberedWords = std::vector<std::pair<std::string, int64_t>>;
Codec<int64_t> choice_of(const NumberedWords& words);

/// Enumerators by their names in YAML. They are numbers inside, so that the compiler makes the code
/// of a choice once.
template <class E>
class Names {
 public:
  Names() = default;
  Names(std::initializer_list<std::pair<const char*, E>> names) {
    for (const auto& [name, value] : names) add(name, value);
  }
  void add(std::string_view name, E value) {
    words_.emplace_back(name, static_cast<int64_t>(value));
  }
  const NumberedWords& words() const { return words_; }

 private:
  NumberedWords words_;
};

template <class E>
Codec<E> choice(const Names<E>& names) {
  const Codec<int64_t> number = choice_of(names.words());
  Codec<E> codec;
  codec.allowed = number.allowed;
  codec.read = [number](const Node& node, const std::string& key, E& out) {
    int64_t value = 0;
    number.read(node, key, value);
    out = static_cast<E>(value);
  };
  codec.write = [number](const E& value) { return number.write(static_cast<int64_t>(value)); };
  return codec;
}

/// A map from names to values of one kind.
template <class V>
Codec<std::map<std::string, V>> map_of(const std::string& names, const Codec<V>& codec) {
  using Map = std::map<std::string, V>;
  Codec<Map> out;
  out.allowed = "a map from " + names + " to " + codec.allowed;
  out.read = [codec, allowed = out.allowed](const Node& node, const std::string& key, Map& map) {
    map.clear();
    if (node.is_null()) return;
    if (!node.is_map()) reject(node, key, allowed);
    for (const Entry& entry : node.entries) {
      codec.read(*entry.value, key + "." + entry.key, map[entry.key]);
    }
  };
  out.write = [codec](const Map& map) {
    std::vector<Entry> entries;
    for (const auto& [name, value] : map) entries.push_back({name, {}, codec.write(value)});
    return make_map(std::move(entries));
  };
  return out;
}

}  // namespace dlrm
