#pragma once
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <sys/mman.h>

#include "dlrm/core/error.h"

namespace dlrm {

/// A long array of zeros, aligned to pages. A page takes memory from its first write on. Pages of
/// large arrays are huge where the system has such, so that accesses of far elements cause far
/// fewer TLB misses.
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit ZeroedArray(int64_t size) : size_(size) {
    void* memory =
        ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw run_error("cannot allocate {} bytes of memory: {}", bytes(), std::strerror(errno));
    }
    if (bytes() >= kLarge) ::madvise(memory, bytes(), MADV_HUGEPAGE);
    data_ = static_cast<T*>(memory);
  }
  ~ZeroedArray() { ::munmap(data_, bytes()); }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  T* data() const { return data_; }
  int64_t size() const { return size_; }
  T& operator[](int64_t i) const { return data_[i]; }
  /// Sets all elements to zero and gives their memory back.
  void clear() {
    if (::madvise(data_, bytes(), MADV_DONTNEED) != 0)
      std::memset(static_cast<void*>(data_), 0, bytes());
  }

 private:
  static constexpr size_t kLarge = size_t{1} << 21;

  size_t bytes() const { return sizeof(T) * static_cast<size_t>(size_ > 0 ? size_ : 1); }

  int64_t size_;
  T* data_ = nullptr;
};

}  // namespace dlrm
