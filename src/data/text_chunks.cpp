#include "dlrm/data/text_chunks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dlrm/core/error.h"

namespace dlrm {

TextChunks::TextChunks(std::vector<std::string> paths, int64_t chunk_bytes)
    : paths_(std::move(paths)), chunk_bytes_(chunk_bytes) {}

bool TextChunks::open_next() {
  if (next_file_ == paths_.size()) return false;
  input_ = std::make_unique<TextInput>(paths_[next_file_++]);
  file_bytes_ = 0;
  return true;
}

bool TextChunks::next(TextChunk& chunk) {
  while (true) {
    if (!input_ && !open_next()) return false;
    if (fill(chunk)) return true;
    if (file_bytes_ == 0) {
      throw usage_error("{}: the file is empty", paths_[next_file_ - 1]);
    }
    input_.reset();
  }
}

/// Reads as many whole lines as fit, at least one. Returns false at the end of the file.
bool TextChunks::fill(TextChunk& chunk) {
  chunk.file = next_file_ - 1;
  std::vector<char>& text = chunk.text;
  auto held = static_cast<int64_t>(rest_.size());
  int64_t room = std::max(chunk_bytes_, held + 1);
  if (static_cast<int64_t>(text.size()) < room + 1) text.resize(static_cast<size_t>(room + 1));
  std::copy(rest_.begin(), rest_.end(), text.begin());
  rest_.clear();
  while (true) {
    while (held < room) {
      const int64_t got = input_->read(text.data() + held, room - held);
      if (got == 0) {
        if (held > 0 && text[static_cast<size_t>(held - 1)] != '\n') {
          text[static_cast<size_t>(held++)] = '\n';
        }
        chunk.size = held;
        bytes_ += held;
        return held > 0;
      }
      held += got;
      file_bytes_ += got;
    }
    const void* end = ::memrchr(text.data(), '\n', static_cast<size_t>(held));
    if (end != nullptr) {
      chunk.size = static_cast<const char*>(end) + 1 - text.data();
      rest_.assign(text.begin() + chunk.size, text.begin() + held);
      bytes_ += chunk.size;
      return true;
    }
    if (room >= kLongestLine) {
      throw usage_error("{}: the line at byte {} is longer than {} bytes", paths_[chunk.file],
                        file_bytes_ - held, kLongestLine);
    }
    room = std::min(kLongestLine, room * 2);
    text.resize(static_cast<size_t>(room + 1));
  }
}

}  // namespace dlrm
