#include "dlrm/data/text_input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr size_t kInputBytes = size_t{1} << 18;

/// The meaning of igzip's return codes.
const char* inflate_fault(int code) {
  switch (code) {
    case ISAL_INVALID_WRAPPER:
      return "not a gzip header";
    case ISAL_INCORRECT_CHECKSUM:
      return "checksum differs";
    case ISAL_UNSUPPORTED_METHOD:
      return "unknown compression method";
    default:
      return "invalid compressed data";
  }
}

}  // namespace

class TextInput::Impl {
 public:
  explicit Impl(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw usage_error("{}: cannot open: {}", path, std::strerror(errno));
    try {
      start();
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }
  ~Impl() { ::close(fd_); }

  bool compressed() const { return gzip_; }
  int64_t read(char* out, int64_t size) { return gzip_ ? inflate(out, size) : copy(out, size); }

 private:
  void start() {
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
    input_.resize(kInputBytes);
    while (held_ < 2 && refill()) {
    }
    gzip_ = at_member();
    if (!gzip_) return;
    state_ = std::make_unique<inflate_state>();
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
  }

  bool at_member() const {
    return held_ >= 2 && input_[begin_] == 0x1f && input_[begin_ + 1] == 0x8b;
  }

  int64_t read_file(void* out, size_t size) {
    while (true) {
      const ssize_t got = ::read(fd_, out, size);
      if (got >= 0) return got;
      if (errno != EINTR) throw run_error("{}: cannot read: {}", path_, std::strerror(errno));
    }
  }

  /// Appends to the held bytes. Returns false at the end of the file.
  bool refill() {
    std::memmove(input_.data(), input_.data() + begin_, held_);
    begin_ = 0;
    const int64_t got = read_file(input_.data() + held_, input_.size() - held_);
    held_ += static_cast<size_t>(got);
    return got > 0;
  }

  int64_t copy(char* out, int64_t size) {
    if (held_ == 0) return read_file(out, static_cast<size_t>(size));
    const size_t count = std::min(held_, static_cast<size_t>(size));
    std::memcpy(out, input_.data() + begin_, count);
    begin_ += count;
    held_ -= count;
    return static_cast<int64_t>(count);
  }

  int64_t inflate(char* out, int64_t size) {
    const auto wanted = static_cast<uint32_t>(size);
    state_->next_out = reinterpret_cast<uint8_t*>(out);
    state_->avail_out = wanted;
    while (state_->avail_out == wanted) {
      if (state_->block_state == ISAL_BLOCK_FINISH && !next_member()) return 0;
      const bool more = held_ > 0 || refill();
      state_->next_in = input_.data() + begin_;
      state_->avail_in = static_cast<uint32_t>(held_);
      const int code = isal_inflate(state_.get());
      if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT) {
        throw usage_error("{}: damaged gzip file: {}", path_, inflate_fault(code));
      }
      begin_ += held_ - state_->avail_in;
      held_ = state_->avail_in;
      const bool moved = state_->avail_out < wanted || state_->block_state == ISAL_BLOCK_FINISH;
      if (!more && !moved) throw usage_error("{}: gzip file is cut off at its end", path_);
    }
    return wanted - state_->avail_out;
  }

  /// Called after the end of a member. Another member may follow, or only zeros, which tapes add as
  /// padding.
  bool next_member() {
    while (held_ < 2 && refill()) {
    }
    while (held_ > 0 && input_[begin_] == 0) {
      ++begin_;
      --held_;
      if (held_ == 0) refill();
      padded_ = true;
    }
    if (held_ == 0) return false;
    if (padded_ || !at_member()) {
      throw usage_error("{}: damaged gzip file: bytes after its end that are not gzip", path_);
    }
    isal_inflate_reset(state_.get());
    return true;
  }

  std::string path_;
  int fd_;
  bool gzip_ = false;
  bool padded_ = false;
  std::vector<uint8_t> input_;  // bytes [begin_, begin_ + held_) are read but not used yet
  size_t begin_ = 0;
  size_t held_ = 0;
  std::unique_ptr<inflate_state> state_;
};

TextInput::TextInput(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
TextInput::~TextInput() = default;
bool TextInput::compressed() const { return impl_->compressed(); }
int64_t TextInput::read(char* out, int64_t size) { return impl_->read(out, size); }

}  // namespace dlrm
