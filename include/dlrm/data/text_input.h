#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace dlrm {

/// A file's bytes in order, decompressed if its first bytes are gzip's. Consecutive gzip members
/// are one text.
class TextInput {
 public:
  /// Throws usage_error naming the path if it cannot be opened.
  explicit TextInput(const std::string& path);
  ~TextInput();
  TextInput(const TextInput&) = delete;
  TextInput& operator=(const TextInput&) = delete;

  bool compressed() const;
  /// Reads up to `size` bytes, of which there are fewer than 2³². Returns 0 only at the end. Throws
  /// usage_error for damaged or truncated gzip, and run_error if reading fails.
  int64_t read(char* out, int64_t size);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
