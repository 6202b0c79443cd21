#pragma once
#include <cstdint>
#include <vector>

#include "mpi_c.h"

namespace dlrm::comm {

/// The MPI messages of one exchange. The caller locks the engine's mutex.
class MpiMessages {
 public:
  /// @param name  of the collective, for error messages
  MpiMessages(MPI_Comm comm, int rank, int tag, const char* name)
      : comm_(comm), rank_(rank), tag_(tag), name_(name) {}
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  /// With `even_if_empty` a block of no bytes is a message too.
  void receive(int from, char* data, int64_t bytes, bool even_if_empty);
  void send(int to, const char* data, int64_t bytes, bool even_if_empty);
  /// Makes progress. Returns true once all messages are complete. Throws run_error if a received
  /// message has another length than expected.
  bool poll();
  /// After a failure: ensures that no message arrives later in memory that the caller is about to
  /// free.
  void cancel();

 private:
  /// One for each request.
  struct Expected {
    int from;  ///< -1 for sends
    int bytes;
  };
  template <class Start>
  void split(int64_t bytes, bool even_if_empty, Start start);

  const MPI_Comm comm_;
  const int rank_;
  const int tag_;
  const char* const name_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Expected> expected_;
};

}  // namespace dlrm::comm
