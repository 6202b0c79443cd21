#include <cerrno>
#include <cstring>
#include <thread>

#include <liburing.h>
#include <sys/uio.h>

#include "dlrm/core/error.h"

#include "block_file.h"

namespace dlrm {

namespace {

/// A ring that only its maker may use. Completions wait until it asks for them, so they do not wake
/// it one by one. Linux has it since 6.1.
constexpr unsigned kOfOneThread = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;

/// Returns 0, or an error number if the kernel or the container refuses every kind of ring.
int init_ring(io_uring& ring, int depth, bool& of_one_thread) {
  int error = 0;
  // Without COOP_TASKRUN, completions interrupt the thread. Linux has it since 5.19.
  for (const unsigned flags : {kOfOneThread, unsigned{IORING_SETUP_COOP_TASKRUN}, 0u}) {
    of_one_thread = flags == kOfOneThread;
    error = -io_uring_queue_init(static_cast<unsigned>(depth), &ring, flags);
    if (error == 0) break;
  }
  return error;
}

/// Linux has these operations since 5.6.
bool can_read_and_write(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  const bool can = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                   io_uring_opcode_supported(probe, IORING_OP_WRITE);
  if (probe) io_uring_free_probe(probe);
  return can;
}

class UringQueue final : public BlockQueue {
 public:
  UringQueue(const File& file, int depth, View<std::byte> memory)
      : file_(file.descriptor()), depth_(depth), memory_(memory) {
    open();
  }
  ~UringQueue() override { close(); }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  bool usable() { return open_ && can_read_and_write(ring_); }

  void start(int id, const BlockTransfer& t) override {
    if (of_one_thread_ && maker_ != std::this_thread::get_id()) reopen();
    ++under_way_;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    DLRM_CHECK(sqe != nullptr, "more transfers than the queue is deep");
    const auto bytes = static_cast<unsigned>(t.bytes);
    const auto offset = static_cast<uint64_t>(t.offset);
    const bool fixed = !registered_.empty() && t.data >= registered_.data() &&
                       t.data < registered_.data() + registered_.size();
    if (t.write) {
      fixed ? io_uring_prep_write_fixed(sqe, fd_, t.data, bytes, offset, 0)
            : io_uring_prep_write(sqe, fd_, t.data, bytes, offset);
    } else {
      fixed ? io_uring_prep_read_fixed(sqe, fd_, t.data, bytes, offset, 0)
            : io_uring_prep_read(sqe, fd_, t.data, bytes, offset);
    }
    sqe->flags |= flags_;
    sqe->user_data = static_cast<uint64_t>(id);
  }

  void submit() override { enter(0); }

  void finish(size_t needed, std::vector<Completion>& completions) override {
    enter(static_cast<unsigned>(needed));
    unsigned head, count = 0;
    io_uring_cqe* cqe;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      completions.push_back({static_cast<int>(cqe->user_data), cqe->res});
      ++count;
    }
    io_uring_cq_advance(&ring_, count);
    under_way_ -= count;
  }

 private:
  void enter(unsigned waited_for) {
    int rc;
    do {
      rc = io_uring_submit_and_wait(&ring_, waited_for);
    } while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
    DLRM_CHECK(rc >= 0, "io_uring_enter: {}", std::strerror(-rc));
  }

  /// Returns 0 or an error number.
  int open() {
    const int error = init_ring(ring_, depth_, of_one_thread_);
    open_ = error == 0;
    if (!open_) return error;
    maker_ = std::this_thread::get_id();
    const iovec region{memory_.data(), memory_.size()};
    // Refused if it exceeds the limit of locked memory.
    const bool registered = io_uring_register_buffers(&ring_, &region, 1) == 0;
    registered_ = registered ? memory_ : View<std::byte>();
    const bool fixed_file = io_uring_register_files(&ring_, &file_, 1) == 0;
    fd_ = fixed_file ? 0 : file_;
    flags_ = fixed_file ? IOSQE_FIXED_FILE : 0;
    return 0;
  }
  void close() {
    if (open_) io_uring_queue_exit(&ring_);
    open_ = false;
  }
  /// For another thread: that of a step moves rows, that of a checkpoint reads them.
  void reopen() {
    DLRM_CHECK(under_way_ == 0, "a transfer of another thread is under way");
    close();
    const int error = open();
    DLRM_CHECK(error == 0, "io_uring_setup: {}", std::strerror(error));
  }

  const int file_, depth_;
  const View<std::byte> memory_;
  io_uring ring_;
  bool open_ = false;
  bool of_one_thread_ = false;  // maker_
  std::thread::id maker_;
  size_t under_way_ = 0;
  View<std::byte> registered_;
  int fd_ = 0;  // of the registered files, or the file's own
  uint8_t flags_ = 0;
};

}  // namespace

std::unique_ptr<BlockQueue> make_uring_queue(const File& file, int depth, View<std::byte> memory) {
  auto queue = std::make_unique<UringQueue>(file, depth, memory);
  return queue->usable() ? std::move(queue) : nullptr;
}

}  // namespace dlrm
