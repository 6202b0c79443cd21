#include "dlrm/core/block_writer.h"

#include <new>
#include <system_error>
#include <utility>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

/// Writes at a time: enough to keep a disk busy between the end of one and the start of the next.
constexpr int kThreads = 4;

}  // namespace

AlignedBlock aligned_block(size_t bytes) {
  AlignedBlock memory(static_cast<std::byte*>(std::aligned_alloc(kBlockAlignment, bytes)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

BlockWriter::BlockWriter(File& file, size_t block_bytes) : file_(file), block_bytes_(block_bytes) {
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    throw run_error("{}: cannot start a thread to write it: {}", file.path(), error.what());
  }
}

BlockWriter::~BlockWriter() { stop(); }

void BlockWriter::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockWriter::write(AlignedBlock& block, size_t bytes, int64_t offset) {
  AlignedBlock next;
  {
    std::unique_lock lock(mutex_);
    written_.wait(lock, [this] { return unwritten_ < kQueued; });
    if (error_) std::rethrow_exception(error_);
    queue_.push_back({std::move(block), bytes, offset});
    ++unwritten_;
    if (!spare_.empty()) {
      next = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  queued_.notify_one();
  block = next ? std::move(next) : aligned_block(block_bytes_);
}

void BlockWriter::wait() {
  std::unique_lock lock(mutex_);
  written_.wait(lock, [this] { return unwritten_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void BlockWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Write next = std::move(queue_.front());
    queue_.pop_front();
    std::exception_ptr error = error_;
    lock.unlock();
    try {
      // After a failure nothing more is written: the file is not used.
      if (!error) file_.write(next.block.get(), next.bytes, next.offset);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error_) error_ = error;
    spare_.push_back(std::move(next.block));
    --unwritten_;
    written_.notify_all();
  }
}

}  // namespace dlrm
