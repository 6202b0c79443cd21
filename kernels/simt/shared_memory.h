#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace simt {

/// One block's shared memory. Between its arrays are gaps that no kernel may access.
class SharedMemory {
 public:
  static constexpr size_t kStaticLimit = size_t{48} << 10;
  static constexpr size_t kBlockLimit = size_t{227} << 10;

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Removes all arrays. The dynamic bytes hold 0xff: NaN as floats, -1 as integers.
  void start_block(size_t dynamic_bytes);
  /// Returns bytes of 0xff. Null if the block exceeds its limit.
  void* allocate(size_t bytes);
  void* dynamic() const { return base_; }
  size_t dynamic_bytes() const { return dynamic_bytes_; }
  /// Describes a write outside the arrays. "" if there was none.
  std::string overrun() const;

 private:
  void end_array(size_t bytes);

  unsigned char* base_;
  size_t dynamic_bytes_ = 0;
  size_t used_ = 0, static_bytes_ = 0;
  struct Array {
    size_t start, bytes, gap;
  };
  std::vector<Array> arrays_;
};

}  // namespace simt
