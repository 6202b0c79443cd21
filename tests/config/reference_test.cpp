#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "config/run_schema.h"
#include "sample_config.h"

namespace dlrm {
namespace {

constexpr const char* kBegin = "<!-- keys: written by config_test, do not edit -->\n";
constexpr const char* kEnd = "<!-- end of keys -->\n";

std::string doc_path() { return (repository_root() / "docs" / "config.md").string(); }

std::string read_doc() {
  std::ifstream file(doc_path());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string escaped_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

/// A Markdown table of all keys, one line per key.
std::string config_reference() {
  std::string out = "| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n";
  for (const KeyDoc& row : key_docs()) {
    out += fmt::format("| `{}` | `{}` | {} | {} |\n", row.key, row.default_value,
                       escaped_cell(row.allowed), escaped_cell(row.meaning));
  }
  return out;
}

/// The page with the table that the code gives between its marks.
std::string with_reference(const std::string& page) {
  const size_t begin = page.find(kBegin);
  const size_t end = page.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return page.substr(0, begin) + kBegin + config_reference() + page.substr(end);
}

TEST(Reference, TheDocumentationHoldsTheTableOfTheCode) {
  const std::string want = with_reference(read_doc());
  if (std::getenv("DLRM_UPDATE_DOCS") != nullptr) std::ofstream(doc_path()) << want;
  EXPECT_EQ(read_doc(), want) << "run config_test with DLRM_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace dlrm
