#include "shuffle_state.h"

#include <cstring>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "dlrm/core/file.h"
#include "dlrm/core/hash.h"

namespace dlrm {

void write_shuffle_state(const std::string& path, const ShuffleState& state) {
  std::string text = fmt::format("{}\n{} {} {} {}\n", state.task, state.samples, state.sum.low,
                                 state.sum.high, state.segments.size());
  for (const Segment& segment : state.segments) {
    fmt::format_to(std::back_inserter(text), "{} {}\n", segment.bucket, segment.bytes);
  }
  text += fmt::format("{}\n", hash_bytes(text.data(), text.size()));
  write_file(path + ".new", text);
  exchange_or_rename(path + ".new", path);
  std::filesystem::remove(path + ".new");
  sync_folder(std::filesystem::path(path).parent_path());
}

std::optional<ShuffleState> read_shuffle_state(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text || text->size() < 2) return std::nullopt;
  const size_t last = text->rfind('\n', text->size() - 2) + 1;
  if (text->substr(last) != fmt::format("{}\n", hash_bytes(text->data(), last))) {
    return std::nullopt;
  }
  ShuffleState state;
  std::istringstream in(*text);
  size_t segments = 0;
  std::getline(in, state.task);
  in >> state.samples >> state.sum.low >> state.sum.high >> segments;
  state.segments.resize(segments);
  for (Segment& segment : state.segments) in >> segment.bucket >> segment.bytes;
  return state;
}

}  // namespace dlrm
