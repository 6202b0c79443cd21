#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace dlrm {

/// Memory that calls in flight borrow, so that a steady state allocates nothing.
class ScratchPool {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    size_t capacity = 0;
    template <class T>
    T* as() const {
      return reinterpret_cast<T*>(memory.get());
    }
  };

  /// At least `bytes` bytes, of any content.
  Block take(size_t bytes);
  void give_back(Block block);

 private:
  std::vector<Block> free_;
};

}  // namespace dlrm
