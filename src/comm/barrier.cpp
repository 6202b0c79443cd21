#include "dlrm/comm/communicator.h"

#include "exchanges.h"

namespace dlrm {

Pending Communicator::start_barrier() {
  Exchange exchange = empty_exchange(*this, "barrier");
  exchange.rendezvous = true;
  exchange.sequence = reserve(exchange.name, 0);
  return start_exchange(std::move(exchange));
}

void Communicator::barrier() { start_barrier().wait(); }

}  // namespace dlrm
