#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi_c.h"

namespace dlrm {

/// Small messages between the ranks' service threads, apart from all collectives.
class Wire {
 public:
  struct Message {
    int from = 0;
    int kind = 0;
    std::vector<char> bytes;
  };
  /// Messages up to this size leave without the receiver's help.
  static constexpr size_t kLargest = 3072;

  virtual ~Wire() = default;
  virtual void send(int to, int kind, const void* data, size_t bytes) = 0;
  /// Messages to `to` that have not left yet: a stopped rank takes none.
  virtual int unsent(int to) = 0;
  virtual bool receive(Message& message) = 0;
  /// The end of MPI on this rank; returns when all ranks are there.
  virtual void finalize() = 0;
  /// Ends all ranks by force.
  virtual void abort(int code) = 0;
};

/// Over `comm`, which it takes over.
std::unique_ptr<Wire> make_mpi_wire(MPI_Comm comm);

}  // namespace dlrm
