#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "comm/mpi/mpi_c.h"

namespace dlrm::comm {

/// Small messages between the control threads of the ranks, apart from all collectives. No call
/// blocks, except finalize() and abort(). One thread at a time.
class ControlChannel {
 public:
  struct Message {
    int from = 0;
    int kind = 0;
    std::vector<char> bytes;
  };
  /// Longest message in bytes. It leaves without help of the receiver.
  static constexpr size_t kMaxBytes = 3072;

  virtual ~ControlChannel() = default;
  virtual void send(int to, int kind, const void* data, size_t bytes) = 0;
  virtual void make_progress() = 0;
  /// Returns the number of messages to `to` that had not left when progress was made last. A
  /// stopped process receives none.
  virtual int unsent(int to) const = 0;
  /// Makes progress and returns true once all messages have left.
  virtual bool all_sent() = 0;
  /// Returns false if there is no message.
  virtual bool receive(Message& message) = 0;
  /// Ends MPI on this rank. Returns once all ranks have called it.
  virtual void finalize() = 0;
  /// Kills all ranks.
  virtual void abort(int code) = 0;
};

/// Returns a channel over `comm`, which it owns.
std::unique_ptr<ControlChannel> make_mpi_control_channel(MPI_Comm comm);

}  // namespace dlrm::comm
