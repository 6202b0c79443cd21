#include "codec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

#include "dlrm/config/memory_size.h"
#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

namespace dlrm {
namespace {

template <class T>
std::optional<T> parsed(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A whole number may be written as 1e6 or 65536.0, as long as a double holds it exactly.
template <class Int>
std::optional<Int> parsed_whole(std::string_view text) {
  if (const auto value = parsed<Int>(text)) return value;
  const auto real = parsed<double>(text);
  if (!real || !(std::fabs(*real) <= 0x1p53) || *real != std::floor(*real)) return std::nullopt;
  if (std::is_unsigned_v<Int> && *real < 0) return std::nullopt;
  if (std::fabs(*real) > static_cast<double>(std::numeric_limits<Int>::max())) return std::nullopt;
  return static_cast<Int>(*real);
}

bool is_name(const std::string& text) {
  constexpr size_t kLongest = 200;
  const auto is_allowed = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kLongest && text[0] != '.' &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

bool is_variable(const std::string& name) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

Codec<std::string> checked_text(const std::string& allowed,
                                std::function<bool(const std::string&)> is_right) {
  Codec<std::string> codec;
  codec.allowed = allowed;
  codec.read = [allowed, is_right = std::move(is_right)](const Node& node, const std::string& key,
                                                         std::string& out) {
    const bool has_text = node.is_scalar() || node.is_null();
    if (!has_text || !is_right(node.text)) reject(node, key, allowed);
    out = node.text;
  };
  codec.write = [](const std::string& value) { return make_scalar(value); };
  return codec;
}

// The node's text with each ${env:NAME} replaced by the value of that environment variable.
std::string with_environment(const Node& node, const std::string& key) {
  constexpr std::string_view kBegin = "${env:";
  std::string out;
  size_t done = 0;
  for (size_t at; (at = node.text.find(kBegin, done)) != std::string::npos;) {
    const size_t first = at + kBegin.size();
    const size_t end = node.text.find('}', first);
    const std::string name = end == std::string::npos ? "" : node.text.substr(first, end - first);
    if (!is_variable(name)) reject(node, key, "${env:NAME}, with the name of a variable");
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') {
      throw usage_error("{}: {} is {}: the environment variable {} is not set", node.place.text(),
                        key, node.shown(), name);
    }
    out.append(node.text, done, at - done).append(value);
    done = end + 1;
  }
  out.append(node.text, done);
  // The result is written to config.yaml and read again from there.
  if (has_control_character(out) || out.find(kBegin) != std::string::npos) {
    throw usage_error("{}: {} is {}, which becomes \"{}\": needs a path", node.place.text(), key,
                      node.shown(), printable(out, 200));
  }
  return out;
}

Codec<std::string> environment_path(const std::string& allowed,
                                    bool (*is_right)(const std::string&)) {
  Codec<std::string> codec = checked_text(allowed, [is_right](const std::string& value) {
    return is_right(value) && !has_control_character(value);
  });
  codec.read = [plain = codec.read](const Node& node, const std::string& key, std::string& out) {
    plain(node, key, out);
    out = with_environment(node, key);
  };
  return codec;
}

/// The whole number in [lo, hi] that a node has, if it has one.
template <class Int>
std::optional<Int> whole_in(const Node& node, Int lo, Int hi) {
  const bool is_number = node.is_scalar() && !node.quoted;
  const auto value = is_number ? parsed_whole<Int>(node.text) : std::nullopt;
  return value && *value >= lo && *value <= hi ? value : std::nullopt;
}

}  // namespace

void reject(const Node& node, const std::string& key, const std::string& needs) {
  throw usage_error("{}: {} is {}: needs {}", node.place.text(), key, node.shown(), needs);
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

template <class Int>
Codec<Int> whole_number(Int lo, Int hi) {
  Codec<Int> codec;
  codec.allowed = fmt::format("a whole number from {} to {}", lo, hi);
  codec.read = [lo, hi, allowed = codec.allowed](const Node& node, const std::string& key,
                                                 Int& out) {
    const auto value = whole_in(node, lo, hi);
    if (!value) reject(node, key, allowed);
    out = *value;
  };
  codec.write = [](const Int& value) { return make_scalar(fmt::format("{}", value)); };
  return codec;
}

template Codec<int> whole_number(int, int);
template Codec<int64_t> whole_number(int64_t, int64_t);
template Codec<uint64_t> whole_number(uint64_t, uint64_t);

Codec<int64_t> whole_number_or_auto(int64_t lo, int64_t hi, int64_t automatic) {
  static constexpr const char* kAuto = "auto";
  Codec<int64_t> codec;
  codec.allowed = fmt::format("a whole number from {} to {}, or auto", lo, hi);
  codec.read = [=, allowed = codec.allowed](const Node& node, const std::string& key,
                                            int64_t& out) {
    const bool is_auto = node.is_scalar() && node.text == kAuto;
    const auto value = is_auto ? automatic : whole_in(node, lo, hi);
    if (!value) reject(node, key, allowed);
    out = *value;
  };
  codec.write = [automatic](const int64_t& value) {
    return make_scalar(value == automatic ? kAuto : fmt::format("{}", value));
  };
  return codec;
}

Codec<double> real_number(double lo, double hi, bool open_above) {
  Codec<double> codec;
  codec.allowed = fmt::format("a number from {} to {}", lo, hi);
  if (open_above) codec.allowed = fmt::format("a number from {} to below {}", lo, hi);
  codec.read = [=, allowed = codec.allowed](const Node& node, const std::string& key, double& out) {
    const bool is_number = node.is_scalar() && !node.quoted;
    const auto value = is_number ? parsed<double>(node.text) : std::nullopt;
    const bool is_inside = value && *value >= lo && *value <= hi;  // never so for NaN
    if (!is_inside || (open_above && *value == hi)) reject(node, key, allowed);
    out = *value;
  };
  codec.write = [](const double& value) { return make_scalar(fmt::format("{}", value)); };
  return codec;
}

Codec<int64_t> choice_of(const NumberedWords& words) {
  std::vector<std::string> names;
  for (const auto& [name, number] : words) names.push_back(name);
  Codec<int64_t> codec;
  codec.allowed = "one of " + joined(names);
  codec.read = [words, allowed = codec.allowed](const Node& node, const std::string& key,
                                                int64_t& out) {
    for (const auto& [name, number] : words) {
      if (!node.is_scalar() || node.text != name) continue;
      out = number;
      return;
    }
    reject(node, key, allowed);
  };
  codec.write = [words](const int64_t& value) {
    for (const auto& [name, number] : words) {
      if (number == value) return make_scalar(name);
    }
    return make_scalar("?");
  };
  return codec;
}

Codec<bool> boolean() { return choice<bool>({{"true", true}, {"false", false}}); }

Codec<std::string> path_text() {
  return environment_path("a path", [](const std::string& value) { return !value.empty(); });
}

Codec<std::string> optional_path(const std::string& allowed) {
  return environment_path(allowed, [](const std::string&) { return true; });
}

Codec<std::vector<std::string>> path_list() {
  const Codec<std::string> path = path_text();
  Codec<std::vector<std::string>> codec;
  codec.allowed = "a path, or a list of paths";
  codec.read = [=, allowed = codec.allowed](const Node& node, const std::string& key,
                                            std::vector<std::string>& out) {
    out.clear();
    if (node.is_map()) reject(node, key, allowed);
    if (!node.is_list()) {
      if (!node.text.empty()) path.read(node, key, out.emplace_back());
      return;
    }
    out.resize(node.items.size());
    for (size_t i = 0; i < out.size(); ++i) {
      path.read(*node.items[i], fmt::format("{}.{}", key, i), out[i]);
    }
  };
  codec.write = [path](const std::vector<std::string>& paths) {
    if (paths.empty()) return make_scalar("");
    if (paths.size() == 1) return path.write(paths.front());
    std::vector<NodePtr> items;
    for (const std::string& item : paths) items.push_back(path.write(item));
    return make_list(std::move(items));
  };
  return codec;
}

Codec<std::string> name_text() {
  return checked_text("a name: letters, digits, _ - . (not first), at most 200", is_name);
}

Codec<std::string> word(const std::vector<std::string>& words) {
  return checked_text("one of " + joined(words), [words](const std::string& value) {
    return std::find(words.begin(), words.end(), value) != words.end();
  });
}

Codec<std::string> memory_size(bool may_be_empty) {
  const std::string allowed = "a size as 64MiB (KiB, MiB, GiB, TiB) or 10%";
  return checked_text(may_be_empty ? allowed + ", or empty" : allowed,
                      [may_be_empty](const std::string& value) {
                        return value.empty() ? may_be_empty : parsed_size(value).has_value();
                      });
}

Codec<std::vector<int64_t>> whole_numbers(int64_t lo, int64_t hi, size_t shortest, size_t longest) {
  const Codec<int64_t> element = whole_number<int64_t>(lo, hi);
  Codec<std::vector<int64_t>> codec;
  codec.allowed =
      fmt::format("a list of {} to {} whole numbers from {} to {}", shortest, longest, lo, hi);
  codec.read = [=, allowed = codec.allowed](const Node& node, const std::string& key,
                                            std::vector<int64_t>& out) {
    const bool is_right = node.is_list() && node.items.size() >= shortest;
    if (!is_right || node.items.size() > longest) reject(node, key, allowed);
    out.assign(node.items.size(), 0);
    for (size_t i = 0; i < out.size(); ++i) {
      element.read(*node.items[i], fmt::format("{}.{}", key, i), out[i]);
    }
  };
  codec.write = [element](const std::vector<int64_t>& values) {
    std::vector<NodePtr> items;
    for (const int64_t value : values) items.push_back(element.write(value));
    return make_list(std::move(items));
  };
  return codec;
}

}  // namespace dlrm
