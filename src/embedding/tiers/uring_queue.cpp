#include <cerrno>
#include <cstring>

#include <liburing.h>
#include <sys/uio.h>

#include "dlrm/core/error.h"

#include "block_file.h"

namespace dlrm {

namespace {

bool init_ring(io_uring& ring, int depth) {
  // Without the flag, completions interrupt the thread. Linux has it since 5.19.
  for (const unsigned flags : {IORING_SETUP_COOP_TASKRUN, 0u}) {
    if (io_uring_queue_init(static_cast<unsigned>(depth), &ring, flags) == 0) return true;
  }
  return false;
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
  /// Takes over the ring.
  UringQueue(const io_uring& ring, const File& file, View<std::byte> memory) : ring_(ring) {
    const iovec region{memory.data(), memory.size()};
    // Refused if it exceeds the limit of locked memory.
    if (io_uring_register_buffers(&ring_, &region, 1) == 0) registered_ = memory;
    const int fd = file.descriptor();
    if (io_uring_register_files(&ring_, &fd, 1) == 0) {
      flags_ = IOSQE_FIXED_FILE;
    } else {
      fd_ = fd;
    }
  }
  ~UringQueue() override { io_uring_queue_exit(&ring_); }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  void start(int id, const BlockTransfer& t) override {
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
  }

 private:
  void enter(unsigned waited_for) {
    int rc;
    do {
      rc = io_uring_submit_and_wait(&ring_, waited_for);
    } while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
    DLRM_CHECK(rc >= 0, "io_uring_enter: {}", std::strerror(-rc));
  }

  io_uring ring_;
  View<std::byte> registered_;
  int fd_ = 0;  // of the registered files, or the file's own
  uint8_t flags_ = 0;
};

}  // namespace

std::unique_ptr<BlockQueue> make_uring_queue(const File& file, int depth, View<std::byte> memory) {
  io_uring ring;
  if (!init_ring(ring, depth)) return nullptr;
  if (!can_read_and_write(ring)) {
    io_uring_queue_exit(&ring);
    return nullptr;
  }
  return std::make_unique<UringQueue>(ring, file, memory);
}

}  // namespace dlrm
