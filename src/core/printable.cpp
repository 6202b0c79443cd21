#include "dlrm/core/printable.h"

#include <algorithm>

namespace dlrm {
namespace {

bool is_control_character(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_control_character);
}

std::string printable(std::string_view text, size_t longest) {
  std::string out(text.substr(0, longest));
  std::replace_if(out.begin(), out.end(), is_control_character, '?');
  return text.size() > longest ? out + "..." : out;
}

}  // namespace dlrm
