#include "dlrm/comm/communicator.h"

namespace dlrm {

Pending Communicator::start_broadcast(void* data, int64_t bytes, int root, Stream* stream) {
  const auto ranks = static_cast<size_t>(size());
  DLRM_CHECK(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
  Exchange exchange{.name = "broadcast", .send = data, .receive = data};
  exchange.layout.send_bytes.assign(ranks, rank() == root ? bytes : 0);
  exchange.layout.send_offsets.assign(ranks, 0);
  exchange.layout.receive_bytes.assign(ranks, 0);
  exchange.layout.receive_bytes[static_cast<size_t>(root)] = bytes;
  exchange.layout.receive_offsets.assign(ranks, 0);
  exchange.stream = stream;
  exchange.sequence = reserve(exchange.name, bytes);
  return start_exchange(std::move(exchange));
}

void Communicator::broadcast(void* data, int64_t bytes, int root) {
  start_broadcast(data, bytes, root).wait();
}

}  // namespace dlrm
