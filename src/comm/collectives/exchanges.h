#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::comm {

/// Returns an exchange on `comm` without bytes. Its sequence is not set. The layout comes from the
/// engine's pool. The code that runs the exchange releases it.
Exchange empty_exchange(const Communicator& comm, const char* name);

/// Returns the exchange that copies bytes_of(q) bytes of each rank q to receive + offset_of(q) on
/// every rank. It takes two sequence numbers, see Exchange::is_gather.
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
  exchange.is_gather = true;
  return exchange;
}

/// Returns the exchange that sends part q of `count` values of `width` bytes to each rank q. Parts
/// arrive in rank order, one slot each. The slot of the rank's own part is left unwritten.
Exchange scatter_exchange(const Communicator& comm, const char* name, const void* send,
                          void* receive, int64_t count, int64_t width);

/// Copies a rank's block for itself, unless source and destination are the same.
void copy_own_block(const Exchange& exchange, int rank, const ProgressEngine& engine);

}  // namespace dlrm::comm
