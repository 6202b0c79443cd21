#include "dlrm/comm/communicator.h"

#include "exchanges.h"

namespace dlrm {

Pending Communicator::start_alltoallv(const void* send, void* receive, const ExchangeLayout& layout,
                                      Stream* stream) {
  const auto ranks = static_cast<size_t>(size());
  DLRM_CHECK(layout.send_bytes.size() == ranks && layout.send_offsets.size() == ranks &&
                 layout.receive_bytes.size() == ranks && layout.receive_offsets.size() == ranks,
             "alltoallv among {} ranks", ranks);
  Exchange exchange = comm::empty_exchange(*this, "alltoallv");
  exchange.send = send;
  exchange.receive = receive;
  exchange.layout = layout;
  exchange.stream = stream;
  exchange.sequence = reserve(exchange.name, layout.send_total());
  return start_exchange(std::move(exchange));
}

void Communicator::alltoallv(const void* send, void* receive, const ExchangeLayout& layout) {
  start_alltoallv(send, receive, layout).wait();
}

}  // namespace dlrm
