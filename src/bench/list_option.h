#pragma once
#include <algorithm>
#include <string_view>
#include <vector>

#include "dlrm/core/error.h"

namespace dlrm::bench {

/// The values of "8,32,128". `parse` reads a word and throws usage_error if it is wrong.
template <class T, class Parse>
std::vector<T> parse_words(std::string_view text, const Parse& parse) {
  std::vector<T> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    values.push_back(parse(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return values;
}

/// The values of an option: "8,32,128", or "8..128" from the first to the last value by
/// `next(value)`. `parse` reads a word and throws usage_error if it is wrong.
template <class T, class Parse, class Next>
std::vector<T> parse_list(std::string_view option, std::string_view text, const Parse& parse,
                          const Next& next) {
  std::vector<T> values;
  const size_t dots = text.find("..");
  if (dots != std::string_view::npos) {
    const T last = parse(text.substr(dots + 2));
    for (T value = parse(text.substr(0, dots)); value <= last; value = next(value)) {
      values.push_back(value);
    }
    if (values.empty()) throw usage_error("{} {}: the first is above the last", option, text);
    return values;
  }
  return parse_words<T>(text, parse);
}

}  // namespace dlrm::bench
