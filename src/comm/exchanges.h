#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm {

/// An exchange on `comm` that moves nothing yet; its sequence is still to be set. What runs it may
/// give the layout back to the engine's memory.
Exchange empty_exchange(const Communicator& comm, const char* name);

/// The exchange that brings bytes_of(q) bytes of rank q to receive + offset_of(q) everywhere.
template <class Bytes, class Offset>
Exchange gather_exchange(const Communicator& comm, const char* name, const void* send,
                         void* receive, Bytes bytes_of, Offset offset_of) {
  Exchange exchange = empty_exchange(comm, name);
  exchange.send = send;
  exchange.receive = receive;
  for (int q = 0; q < comm.size(); ++q) {
    const auto i = static_cast<size_t>(q);
    exchange.layout.send_bytes[i] = bytes_of(comm.rank());
    exchange.layout.receive_bytes[i] = bytes_of(q);
    exchange.layout.receive_offsets[i] = offset_of(q);
  }
  return exchange;
}

/// The exchange that brings part q of `count` values of `width` bytes of every rank to rank q,
/// where it arrives rank after rank but for the rank's own part, which stays where it is.
Exchange scatter_exchange(const Communicator& comm, const char* name, const void* send,
                          void* receive, int64_t count, int64_t width);

/// Copies a rank's block for itself where it is not there already.
void copy_own_block(const Exchange& exchange, int rank);

}  // namespace dlrm
