#include "dlrm/encode/preprocessing.h"

#include <algorithm>
#include <cstring>

#include <isa-l/igzip_lib.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"
#include "dlrm/encode/utf8.h"

namespace dlrm {
namespace {

using nlohmann::json;

/// What is wrong with the bytes, before it is known where they are from.
struct Damage {
  std::string text;
};

std::string inflated(std::string_view bytes) {
  inflate_state state;
  isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  std::string result;
  size_t taken = 0, made = 0;
  while (state.block_state != ISAL_BLOCK_FINISH) {
    constexpr size_t kMost = size_t{1} << 30;  // igzip counts in 32 bits
    if (made == result.size()) result.resize(made + std::clamp(2 * made, size_t{1} << 16, kMost));
    const auto given = static_cast<uint32_t>(std::min(bytes.size() - taken, kMost));
    const auto room = static_cast<uint32_t>(std::min(result.size() - made, kMost));
    state.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data() + taken));
    state.avail_in = given;
    state.next_out = reinterpret_cast<uint8_t*>(result.data() + made);
    state.avail_out = room;
    const int code = isal_inflate(&state);
    if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT) throw Damage{"is no undamaged gzip"};
    const size_t before = taken + made;
    taken += given - state.avail_in;
    made += room - state.avail_out;
    if (taken + made == before && state.block_state != ISAL_BLOCK_FINISH) {
      throw Damage{"is cut off"};
    }
  }
  result.resize(made);
  if (taken != bytes.size()) throw Damage{"has bytes after its end"};
  return result;
}

/// Takes the bytes of dictionaries from the front.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw Damage{"ends within a dictionary"};
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

template <class T>
void take(const json& from, const char* key, T& to) {
  const auto found = from.find(key);
  if (found == from.end()) return;
  if constexpr (requires { to.value(); }) {
    to = found->get<typename T::value_type>();
  } else {
    found->get_to(to);
  }
}

Preprocessing::Dense dense_of(const json& from) {
  Preprocessing::Dense dense;
  from.at("column").get_to(dense.column);
  take(from, "fill", dense.fill);
  if (from.contains("clip")) {
    from.at("clip").at(0).get_to(dense.least);
    from.at("clip").at(1).get_to(dense.most);
  }
  take(from, "log", dense.log);
  take(from, "mean", dense.mean);
  take(from, "deviation", dense.deviation);
  return dense;
}

Preprocessing::Log log_of(const json& from) {
  Preprocessing::Log log;
  take(from, "type", log.type);
  take(from, "columns", log.columns);
  const auto take_character = [&](const char* key, std::optional<char>& to) {
    if (!from.contains(key)) return;
    const auto text = from.at(key).get<std::string>();
    if (text.size() > 1) throw Damage{fmt::format("has a {} of several characters", key)};
    to = text.empty() ? '\0' : text[0];
  };
  take_character("delimiter", log.delimiter);
  take_character("quote", log.quote);
  return log;
}

/// The place of a text in a list of them.
template <size_t n>
size_t choice(const std::string& text, const char* const (&choices)[n]) {
  for (size_t i = 0; i < n; ++i) {
    if (text == choices[i]) return i;
  }
  throw Damage{fmt::format("names {}, which this version does not know", text)};
}

Preprocessing::Sparse sparse_of(const json& from, const Preprocessing& all) {
  using P = Preprocessing;
  P::Sparse sparse;
  from.at("feature").get_to(sparse.feature);
  from.at("column").get_to(sparse.column);
  sparse.values = static_cast<P::Values>(
      choice(from.at("values").get<std::string>(), {"text", "integer", "hex"}));
  sparse.encoding = static_cast<P::Encoding>(
      choice(from.at("encoding").get<std::string>(), {"dictionary", "hash", "integers"}));
  take(from, "rows", sparse.rows);
  if (sparse.rows < 1) throw Damage{"has a feature without rows"};
  if (sparse.values == P::Values::kInteger) {
    take(from, "fill", sparse.fill_integer);
  } else {
    take(from, "fill", sparse.fill);
  }
  if (from.contains("list")) {
    const json& tree = from.at("list");
    P::List list;
    take(tree, "separator", list.separator);
    if (list.separator && list.separator->empty()) throw Damage{"has an empty separator"};
    take(tree, "cap", list.cap);
    if (list.cap < 1) throw Damage{"has a cap below 1"};
    list.keeps_last = tree.value("keep", "first") == "last";
    sparse.list = std::move(list);
  }
  if (sparse.encoding == P::Encoding::kDictionary) {
    const auto name = from.at("dictionary").get<std::string>();
    const auto found = std::find_if(all.dictionaries.begin(), all.dictionaries.end(),
                                    [&](const P::Dictionary& d) { return d.name == name; });
    if (found == all.dictionaries.end()) throw Damage{"lacks the dictionary of " + name};
    if (found->of_texts != (sparse.values == P::Values::kText)) {
      throw Damage{"has a dictionary of another type for " + name};
    }
    sparse.dictionary = static_cast<size_t>(found - all.dictionaries.begin());
  }
  return sparse;
}

/// The first line. `reader` then has what follows it.
json head_of(std::string_view plain, ByteReader& reader) {
  const size_t end = plain.find('\n');
  if (end == std::string_view::npos) throw Damage{"has no first line"};
  json head = json::parse(plain.substr(0, end));
  if (head.at("format") != "dlrm-preprocessing") throw Damage{"is no preprocessing"};
  if (head.at("version") != 1) throw Damage{"is of a later version than 1"};
  reader = ByteReader(plain.substr(end + 1));
  return head;
}

/// The values of a dictionary, taken from the front.
std::vector<std::string_view> take_values(bool of_texts, uint64_t count, ByteReader& reader) {
  if (count > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()) - 1) {
    throw Damage{"has a dictionary with too many values"};
  }
  std::vector<std::string_view> values(count);
  const std::string_view lengths = reader.take(of_texts ? 4 * count : 0);
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t length = 8;
    if (of_texts) std::memcpy(&length, lengths.data() + 4 * i, 4);
    values[i] = reader.take(length);
    if (of_texts && !is_utf8(values[i])) throw Damage{"has a text that is not UTF-8"};
  }
  return values;
}

bool is_of_texts(const json& dictionary) {
  return choice(dictionary.at("values").get<std::string>(), {"integer", "text"}) == 1;
}

Preprocessing parse(std::string_view bytes) {
  Preprocessing result;
  result.bytes = std::make_unique<std::string>(inflated(bytes));
  ByteReader reader({});
  const json head = head_of(*result.bytes, reader);
  head.at("missing").get_to(result.missing);
  if (head.contains("log")) result.log = log_of(head.at("log"));
  for (const json& dense : head.at("dense")) result.dense.push_back(dense_of(dense));
  for (const json& from : head.at("dictionaries")) {
    Preprocessing::Dictionary& dictionary = result.dictionaries.emplace_back();
    from.at("name").get_to(dictionary.name);
    dictionary.of_texts = is_of_texts(from);
    const auto count = from.at("count").get<uint64_t>();
    const auto values = take_values(dictionary.of_texts, count, reader);
    std::vector<int32_t> numbers(count);
    dictionary.values.number_all(values, 0, numbers.data());
    if (static_cast<uint64_t>(dictionary.values.size()) != count) {
      throw Damage{fmt::format("has a value twice in the dictionary of {}", dictionary.name)};
    }
  }
  if (!reader.empty()) throw Damage{"has bytes after its last dictionary"};
  for (const json& sparse : head.at("sparse")) result.sparse.push_back(sparse_of(sparse, result));
  return result;
}

std::string text_of(std::string_view value, bool of_texts, bool hex) {
  if (of_texts) return std::string(value);
  int64_t number = 0;
  std::memcpy(&number, value.data(), sizeof(number));
  if (hex) return number == int64_t{1} << 32 ? "" : fmt::format("{:x}", number);
  return std::to_string(number);
}

std::vector<std::optional<std::string>> values_of(std::string_view bytes,
                                                  const std::string& feature,
                                                  View<const int64_t> ids) {
  const std::string plain = inflated(bytes);
  ByteReader reader({});
  const json head = head_of(plain, reader);
  std::vector<std::optional<std::string>> found(ids.size());
  std::string name;
  bool hex = false;
  for (const json& sparse : head.at("sparse")) {
    if (sparse.at("feature") != feature || sparse.at("encoding") != "dictionary") continue;
    name = sparse.at("dictionary").get<std::string>();
    hex = sparse.at("values") == "hex";
  }
  if (name.empty()) return found;
  for (const json& from : head.at("dictionaries")) {
    const bool of_texts = is_of_texts(from);
    const auto values = take_values(of_texts, from.at("count").get<uint64_t>(), reader);
    if (from.at("name") != name) continue;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 1 || ids[i] > std::ssize(values)) continue;
      found[i] = text_of(values[static_cast<size_t>(ids[i] - 1)], of_texts, hex);
    }
  }
  return found;
}

/// read(), with errors that begin with `where`.
template <class Read>
auto named(const std::string& where, const Read& read) {
  try {
    return read();
  } catch (const Damage& damage) {
    throw usage_error("{}: {}", where, damage.text);
  } catch (const json::exception&) {
    throw usage_error("{}: its first line is not that of a preprocessing", where);
  }
}

}  // namespace

Preprocessing parse_preprocessing(std::string_view bytes, const std::string& where) {
  return named(where, [&] { return parse(bytes); });
}

std::vector<std::optional<std::string>> values_of_ids(std::string_view bytes,
                                                      const std::string& where,
                                                      const std::string& feature,
                                                      View<const int64_t> ids) {
  return named(where, [&] { return values_of(bytes, feature, ids); });
}

std::string describe(const Preprocessing& preprocessing) {
  using P = Preprocessing;
  std::string text;
  for (size_t i = 0; i < preprocessing.dense.size(); ++i) {
    const P::Dense& dense = preprocessing.dense[i];
    text += fmt::format("dense {:<3} is column {}", i, printable(dense.column, 60));
    if (dense.fill) text += fmt::format(", fill {:g}", *dense.fill);
    if (dense.least > -std::numeric_limits<double>::infinity()) {
      text += fmt::format(", clip [{:g}, {:g}]", dense.least, dense.most);
    }
    if (dense.log) text += ", log";
    if (dense.mean)
      text += fmt::format(", mean {:g}, deviation {:g}", *dense.mean, dense.deviation);
    text += "\n";
  }
  for (const P::Sparse& sparse : preprocessing.sparse) {
    text += fmt::format("{} is column {}: {}", sparse.feature, printable(sparse.column, 60),
                        sparse.list ? "lists of " : "");
    text += sparse.values == P::Values::kText      ? "texts"
            : sparse.values == P::Values::kInteger ? "integers"
                                                   : "hexadecimal digits";
    if (sparse.encoding == P::Encoding::kDictionary) {
      const P::Dictionary& dictionary = preprocessing.dictionaries[sparse.dictionary];
      text += fmt::format(", dictionary {} of {}", dictionary.name, dictionary.values.size());
    } else if (sparse.encoding == P::Encoding::kHash) {
      text += fmt::format(", hash {}", sparse.rows);
    }
    text += "\n";
  }
  return text;
}

}  // namespace dlrm
