#pragma once
#include <cstddef>
#include <cstdint>

namespace dlrm::comm {

/// A place in an arena: a segment, the segment's generation, and an offset. The generation tells
/// apart the segments that had the same number one after another. Eight bytes, so that it can be
/// stored atomically.
class ArenaAddress {
 public:
  static constexpr int kOffsetBits = 40;
  static constexpr int kSegmentBits = 8;
  static constexpr uint32_t kGenerations = 1 << 15;

  ArenaAddress() = default;  ///< null
  ArenaAddress(int segment, uint32_t generation, size_t offset)
      : bits_(((static_cast<uint64_t>(generation) << kSegmentBits | static_cast<uint64_t>(segment))
                   << kOffsetBits |
               offset) +
              1) {}
  explicit ArenaAddress(uint64_t bits) : bits_(bits) {}

  bool is_null() const { return bits_ == 0; }
  int segment() const {
    return static_cast<int>((bits_ - 1) >> kOffsetBits & ((1 << kSegmentBits) - 1));
  }
  uint32_t generation() const {
    return static_cast<uint32_t>((bits_ - 1) >> (kOffsetBits + kSegmentBits));
  }
  size_t offset() const { return (bits_ - 1) & ((uint64_t{1} << kOffsetBits) - 1); }
  ArenaAddress operator+(size_t bytes) const { return ArenaAddress(bits_ + bytes); }
  uint64_t bits() const { return bits_; }

 private:
  uint64_t bits_ = 0;
};

}  // namespace dlrm::comm
