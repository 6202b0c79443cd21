#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "progress_engine.h"

namespace dlrm::comm {

/// Temporary memory of one call, from its engine's pool. The destructor returns it.
class CallBuffer {
 public:
  explicit CallBuffer(std::shared_ptr<ProgressEngine> engine) : engine_(std::move(engine)) {}
  ~CallBuffer() { engine_->buffers().release(block_); }
  CallBuffer(const CallBuffer&) = delete;
  CallBuffer& operator=(const CallBuffer&) = delete;

  /// Once per buffer. The content is undefined.
  void allocate(int64_t bytes) { block_ = engine_->buffers().acquire(static_cast<size_t>(bytes)); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(block_.data);
  }

 private:
  std::shared_ptr<ProgressEngine> engine_;
  BlockPool<HeapMemory>::Block block_;
};

}  // namespace dlrm::comm
