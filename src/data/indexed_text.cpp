#include "indexed_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 18;

File open_text(const std::string& path) {
  auto file = File::try_open(path, File::Mode::kRead);
  struct stat status {};
  if (!file || fstat(file->descriptor(), &status) != 0) {
    throw usage_error("{}: cannot open the text: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw usage_error("{}: not a file", path);
  return std::move(*file);
}

[[noreturn]] void report_change(const std::string& path) {
  throw run_error("{}: the text was changed while it was in use", path);
}

}  // namespace

IndexedText::IndexedText(const std::string& path, int64_t kept_lines)
    : file_(open_text(path)),
      gzip_(TextInput(path).compressed()),
      kept_lines_(kept_lines),
      blocks_{{0, 0}} {
  TextChunks chunks({path}, kBlockBytes);
  TextChunk chunk;
  while (chunks.next(chunk)) {
    const int64_t lines = std::count(chunk.begin(), chunk.end(), '\n');
    blocks_.push_back({blocks_.back().byte + chunk.size, blocks_.back().line + lines});
  }
}

void IndexedText::read(int64_t first, int64_t last, TextChunk& text) const {
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), first,
                                      [](int64_t line, const Block& b) { return line < b.line; });
  for (auto index = static_cast<size_t>(after - blocks_.begin()) - 1; first < last; ++index) {
    const Bytes bytes = block(index);
    const char* const end = bytes->data() + bytes->size();
    const auto skip = [&](const char* at, int64_t lines) {
      for (; lines > 0; --lines) {
        at = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
        if (at == nullptr) report_change(path());
        ++at;
      }
      return at;
    };
    const int64_t stop = std::min(last, blocks_[index + 1].line);
    const char* const from = skip(bytes->data(), first - blocks_[index].line);
    const char* const to = skip(from, stop - first);
    const auto held = static_cast<size_t>(text.size), more = static_cast<size_t>(to - from);
    if (text.text.size() < held + more) text.text.resize(held + more);
    std::copy(from, to, text.text.begin() + text.size);
    text.size += to - from;
    first = stop;
  }
}

IndexedText::Bytes IndexedText::block(size_t index) const {
  return gzip_ ? unpacked_block(index) : plain_block(index);
}

IndexedText::Bytes IndexedText::plain_block(size_t index) const {
  const int64_t begin = blocks_[index].byte, size = size_of(index);
  std::string bytes(static_cast<size_t>(size), '\n');
  // The end of the last line may be missing.
  const int64_t there = std::min(size, file_.size() - begin);
  if (there < size - 1) report_change(path());
  file_.read(bytes.data(), static_cast<size_t>(there), begin);
  return std::make_shared<const std::string>(std::move(bytes));
}

IndexedText::Bytes IndexedText::unpacked_block(size_t index) const {
  const std::lock_guard lock(mutex_);
  const auto kept = kept_.find(index);
  if (kept != kept_.end()) return kept->second;
  if (!input_ || index < next_) {
    input_ = std::make_unique<TextInput>(path());
    next_ = 0;
    kept_.clear();
  }
  while (next_ <= index) unpack_next();
  return kept_.at(index);
}

void IndexedText::unpack_next() const {
  const int64_t size = size_of(next_);
  std::string bytes(static_cast<size_t>(size), '\n');
  int64_t held = 0;
  while (held < size) {
    const int64_t got = input_->read(bytes.data() + held, size - held);
    if (got == 0) break;
    held += got;
  }
  if (held < size - 1) report_change(path());
  kept_[next_] = std::make_shared<const std::string>(std::move(bytes));
  const int64_t needed = blocks_[next_].line - kept_lines_;
  while (blocks_[kept_.begin()->first + 1].line < needed) kept_.erase(kept_.begin());
  ++next_;
}

}  // namespace dlrm
