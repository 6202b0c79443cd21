#include "dlrm/comm/communicator.h"

namespace dlrm {

Pending Communicator::start_barrier() {
  const std::vector<int64_t> nothing(static_cast<size_t>(size()), 0);
  Exchange exchange{.name = "barrier", .rendezvous = true};
  exchange.layout = ExchangeLayout::packed(nothing, nothing);
  exchange.sequence = reserve(exchange.name, 0);
  return start_exchange(std::move(exchange));
}

void Communicator::barrier() { start_barrier().wait(); }

}  // namespace dlrm
