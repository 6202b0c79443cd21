#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "board.h"
#include "mpi_c.h"
#include "progress.h"

namespace dlrm {

/// What tells the calls in flight on a communicator apart, with their sequence: ranks in different
/// calls wait (and the watchdog names them) instead of reading each other's bytes.
uint32_t kind_of(const char* name);

/// One exchange among MPI ranks. Those of the same machine read each other's memory where there is
/// a `board`; bytes of the others, and those of large blocks in ordinary memory, are MPI messages.
class MpiExchange final : public Call {
 public:
  MpiExchange(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, int rank, int largest_tag,
              Board* board, Exchange exchange);
  ~MpiExchange() override;
  void start();

 private:
  static constexpr int64_t kMostStaged = int64_t{4} << 20;  ///< bytes for each reader
  static constexpr int64_t kStepsToCheck = 8192;  ///< that found nothing: some milliseconds
  static constexpr int64_t kTaken = -1;  ///< instead of expected bytes: nothing more to read

  bool step() override;
  bool take_from_board();
  bool take_from(int q);
  bool messages_done();
  void withdraw_messages();
  void offer();
  Spot shown(int64_t begin, int64_t end, int64_t largest, int readers);
  bool meets(int64_t bytes) const { return bytes > 0 || exchange_.rendezvous; }
  bool beside_me(int q) const { return board_ && board_->reaches(q); }
  int ranks() const { return static_cast<int>(exchange_.layout.send_bytes.size()); }
  int64_t sent(int q) const { return exchange_.layout.send_bytes[static_cast<size_t>(q)]; }
  int64_t expected(int q) const { return exchange_.layout.receive_bytes[static_cast<size_t>(q)]; }
  int64_t& expected(int q) { return exchange_.layout.receive_bytes[static_cast<size_t>(q)]; }
  char* receive_place(int q) const {
    return static_cast<char*>(exchange_.receive) +
           exchange_.layout.receive_offsets[static_cast<size_t>(q)];
  }
  const char* send_place(int q) const {
    return static_cast<const char*>(exchange_.send) +
           exchange_.layout.send_offsets[static_cast<size_t>(q)];
  }
  template <class Message>
  void post(int64_t bytes, Message message);
  void start_receive(int q);
  void start_send(int q);
  void require_length(int q, int64_t bytes) const;

  const MPI_Comm comm_;
  const int rank_;
  const int tag_;
  Board* const board_;
  Exchange exchange_;
  const uint32_t kind_;
  int64_t idle_steps_ = 0;
  int to_read_ = 0;            ///< ranks whose notice has not been seen
  Notice* notice_ = nullptr;   ///< where others read this rank's own memory
  ArenaBlocks::Block staged_;  ///< the blocks' copy in shared memory
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  /// Of each request: the rank and the bytes of a receive; -1 for sends.
  struct Message {
    int rank;
    int bytes;
  };
  std::vector<Message> messages_;
};

}  // namespace dlrm
