#include "dlrm/comm/communicator.h"

#include "exchanges.h"

namespace dlrm {

Pending Communicator::start_broadcast(void* data, int64_t bytes, int root, Stream* stream) {
  const auto ranks = static_cast<size_t>(size());
  DLRM_CHECK(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
  Exchange exchange = comm::empty_exchange(*this, "broadcast");
  exchange.receive = data;
  exchange.send = data;
  if (rank() == root) exchange.layout.send_bytes.assign(ranks, bytes);
  exchange.layout.receive_bytes[static_cast<size_t>(root)] = bytes;
  exchange.stream = stream;
  exchange.is_gather = true;  // in which only the root has a block
  exchange.sequence = reserve(exchange.name, bytes, 2);
  return start_exchange(std::move(exchange));
}

void Communicator::broadcast(void* data, int64_t bytes, int root) {
  start_broadcast(data, bytes, root).wait();
}

}  // namespace dlrm
