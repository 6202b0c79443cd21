#pragma once
#include <cstdint>
#include <vector>

#include "comm/world/node_layout.h"
#include "mpi_c.h"

namespace dlrm::comm {

/// The MPI messages of one exchange. The caller locks the engine's mutex.
class MpiMessages {
 public:
  /// @param nodes  null: all ranks are on one node
  /// @param name   of the collective, for error messages
  MpiMessages(MPI_Comm comm, int rank, const NodeLayout* nodes, int tag, const char* name)
      : comm_(comm), rank_(rank), nodes_(nodes), tag_(tag), name_(name) {}
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
  void split(int peer, int64_t bytes, bool even_if_empty, Start start);
  void check_length(const Expected& expected, const MPI_Status& status) const;

  const MPI_Comm comm_;
  const int rank_;
  const NodeLayout* const nodes_;
  const int tag_;
  const char* const name_;
  size_t complete_ = 0;  ///< requests at the front that are complete
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Expected> expected_;
};

}  // namespace dlrm::comm
