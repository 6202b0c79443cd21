#pragma once
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "dlrm/core/error.h"

/// What the harnesses share. LLVMFuzzerTestOneInput(data, size) reads one input as the product
/// would. It ends the process if the result is neither right nor the expected error.
namespace dlrm::fuzz {

/// Ends the process, so that the fuzzer reports the input.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "wrong: {}\n", fmt::format(format, std::forward<Args>(args)...));
  std::abort();
}

/// Calls `read`. Returns false if it throws an Error of this code and one printable line. Any other
/// exception ends the process.
template <class Read>
bool accepted(ExitCode code, const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (error.code() != code) fail("exit code {}: {}", static_cast<int>(error.code()), text);
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) fail("no line of text: {}", text);
    }
    return false;
  }
}

inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// 0 if the text is no number.
template <class T = int64_t>
T number(std::string_view text) {
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Replaces a file of the current folder.
inline void write_file(const char* name, std::string_view bytes) {
  std::FILE* file = std::fopen(name, "wb");
  const bool written = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (!written || std::fclose(file) != 0) fail("cannot write {}", name);
}

}  // namespace dlrm::fuzz
