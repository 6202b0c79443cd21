#include "dlrm/comm/communicator.h"

#include "exchanges.h"

namespace dlrm {

Pending Communicator::start_barrier() {
  Exchange exchange = comm::empty_exchange(*this, "barrier");
  exchange.is_barrier = true;
  exchange.sequence = reserve(exchange.name, 0);
  return start_exchange(std::move(exchange));
}

void Communicator::barrier() { start_barrier().wait(); }

}  // namespace dlrm
