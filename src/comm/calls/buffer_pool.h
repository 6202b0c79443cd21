#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace dlrm::comm {

/// Recycles temporary memory of calls, so that a steady state allocates nothing.
class BufferPool {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    size_t capacity = 0;
    template <class T>
    T* as() const {
      return reinterpret_cast<T*>(memory.get());
    }
  };

  /// Returns at least `bytes` bytes. Their content is undefined.
  Block acquire(size_t bytes);
  void release(Block block);

 private:
  std::vector<Block> free_;
};

}  // namespace dlrm::comm
