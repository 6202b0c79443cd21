#include "exchanges.h"

#include "dlrm/core/partition.h"

#include "comm/calls/progress_engine.h"

namespace dlrm::comm {

Exchange empty_exchange(const Communicator& comm, const char* name) {
  Exchange exchange;
  exchange.name = name;
  exchange.layout = comm.engine()->call_pool()->acquire_layout(static_cast<size_t>(comm.size()));
  return exchange;
}

Exchange scatter_exchange(const Communicator& comm, const char* name, const void* send,
                          void* receive, int64_t count, int64_t width) {
  Exchange exchange = empty_exchange(comm, name);
  exchange.send = send;
  exchange.receive = receive;
  const int64_t own_bytes = part_of(count, comm.rank(), comm.size()).size() * width;
  for (int q = 0; q < comm.size(); ++q) {
    const auto i = static_cast<size_t>(q);
    const Range part = part_of(count, q, comm.size());
    exchange.layout.send_offsets[i] = part.begin * width;
    exchange.layout.receive_offsets[i] = q * own_bytes;
    if (q == comm.rank()) continue;
    exchange.layout.send_bytes[i] = part.size() * width;
    exchange.layout.receive_bytes[i] = own_bytes;
  }
  return exchange;
}

void copy_own_block(const Exchange& exchange, int rank, const ProgressEngine& engine) {
  const auto own = static_cast<size_t>(rank);
  const ExchangeLayout& layout = exchange.layout;
  const int64_t bytes = layout.send_bytes[own];
  DLRM_CHECK(bytes == layout.receive_bytes[own], "{}: rank {} sends itself {} bytes, expects {}",
             exchange.name, rank, bytes, layout.receive_bytes[own]);
  const char* from = static_cast<const char*>(exchange.send) + layout.send_offsets[own];
  char* to = static_cast<char*>(exchange.receive) + layout.receive_offsets[own];
  if (from != to) engine.copy(to, from, bytes);
}

}  // namespace dlrm::comm
