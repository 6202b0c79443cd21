#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlrm/core/file.h"
#include "dlrm/data/text_chunks.h"

namespace dlrm {

/// A text file, plain or gzip, whose lines are read at any place. It is read once as a whole to
/// count its lines and to note where its blocks begin: 16 bytes for every 256 KiB of text.
///
/// Blocks of a plain file are read where they are, by several threads at once. Gzip can only be
/// read from the file's beginning. So blocks that were just read are kept, for threads that read
/// lines a little further back, and what lies still further back begins at the file's start again.
class IndexedText {
 public:
  /// `kept_lines`: threads read at most so many lines behind the furthest one. Errors (exit 2) name
  /// the file.
  IndexedText(const std::string& path, int64_t kept_lines);
  /// Changes the number of lines that are kept. Not while threads read.
  void keep(int64_t lines) { kept_lines_ = lines; }

  const std::string& path() const { return file_.path(); }
  int64_t lines() const { return blocks_.back().line; }
  /// Appends lines [first, last) to `text`. Each ends in '\n', which the file's last line need not
  /// have. A file that is no longer what it was is a run_error.
  void read(int64_t first, int64_t last, TextChunk& text) const;

 private:
  struct Block {
    int64_t byte;  // of the (unpacked) text
    int64_t line;
  };
  using Bytes = std::shared_ptr<const std::string>;

  Bytes block(size_t index) const;
  Bytes plain_block(size_t index) const;
  Bytes unpacked_block(size_t index) const;
  void unpack_next() const;
  int64_t size_of(size_t block) const { return blocks_[block + 1].byte - blocks_[block].byte; }

  File file_;
  bool gzip_;
  int64_t kept_lines_;
  std::vector<Block> blocks_;  // and the end of the text

  mutable std::mutex mutex_;
  mutable std::unique_ptr<TextInput> input_;  // at the beginning of block next_
  mutable size_t next_ = 0;
  mutable std::map<size_t, Bytes> kept_;
};

}  // namespace dlrm
