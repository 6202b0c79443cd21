#include "exchanges.h"

#include <cstring>

namespace dlrm {

void copy_own_block(const Exchange& exchange, int rank) {
  const auto own = static_cast<size_t>(rank);
  const ExchangeLayout& layout = exchange.layout;
  const int64_t bytes = layout.send_bytes[own];
  DLRM_CHECK(bytes == layout.receive_bytes[own], "{}: rank {} sends itself {} bytes, expects {}",
             exchange.name, rank, bytes, layout.receive_bytes[own]);
  const char* from = static_cast<const char*>(exchange.send) + layout.send_offsets[own];
  char* to = static_cast<char*>(exchange.receive) + layout.receive_offsets[own];
  if (bytes > 0 && from != to) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace dlrm
