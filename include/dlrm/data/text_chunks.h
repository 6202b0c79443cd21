#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/data/text_input.h"

namespace dlrm {

/// Whole lines of one file. Each ends in '\n', which is added to the last line if it is missing.
struct TextChunk {
  size_t file = 0;  ///< index of the input
  std::vector<char> text;
  int64_t size = 0;  ///< bytes of `text` that are lines

  const char* begin() const { return text.data(); }
  const char* end() const { return text.data() + size; }
};

/// Cuts texts into chunks at line ends, file after file.
class TextChunks {
 public:
  static constexpr int64_t kChunkBytes = int64_t{1} << 21;
  static constexpr int64_t kLongestLine = kChunkBytes;

  explicit TextChunks(std::vector<std::string> paths, int64_t chunk_bytes = kChunkBytes);

  /// Fills `chunk`, whose memory is reused. Returns false after the last chunk. An empty file, or a
  /// line longer than kLongestLine, is a usage_error.
  bool next(TextChunk& chunk);
  /// Bytes in all chunks so far.
  int64_t bytes() const { return bytes_; }

 private:
  bool open_next();
  bool fill(TextChunk& chunk);

  std::vector<std::string> paths_;
  int64_t chunk_bytes_;
  size_t next_file_ = 0;
  std::unique_ptr<TextInput> input_;
  std::vector<char> rest_;  // start of a line of the open file, for the next chunk
  int64_t file_bytes_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace dlrm
