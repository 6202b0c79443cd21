#include "dlrm/comm/communicator.h"

#include "exchanges.h"

namespace dlrm {

Pending Communicator::start_allgatherv(const void* send, void* receive, View<const int64_t> bytes,
                                       View<const int64_t> offsets, Stream* stream) {
  const auto ranks = static_cast<size_t>(size());
  DLRM_CHECK(bytes.size() == ranks && offsets.size() == ranks, "allgatherv among {} ranks", ranks);
  Exchange exchange = comm::gather_exchange(
      *this, "allgatherv", send, receive, [&](int q) { return bytes[static_cast<size_t>(q)]; },
      [&](int q) { return offsets[static_cast<size_t>(q)]; });
  exchange.stream = stream;
  exchange.sequence = reserve(exchange.name, bytes[static_cast<size_t>(rank())], 2);
  return start_exchange(std::move(exchange));
}

std::vector<char> Communicator::allgather_bytes(const void* mine, int64_t mine_bytes,
                                                std::vector<int64_t>& bytes) {
  DLRM_CHECK(!on_device(), "host values are gathered by a host communicator");
  const auto ranks = static_cast<size_t>(size());
  bytes.assign(ranks, 0);
  bytes[static_cast<size_t>(rank())] = mine_bytes;
  std::vector<int64_t> eights(ranks, sizeof(int64_t)), offsets(ranks);
  for (size_t q = 0; q < ranks; ++q) offsets[q] = static_cast<int64_t>(q * sizeof(int64_t));
  start_allgatherv(&bytes[static_cast<size_t>(rank())], bytes.data(), eights, offsets).wait();

  int64_t total = 0;
  for (size_t q = 0; q < ranks; ++q) {
    offsets[q] = total;
    total += bytes[q];
  }
  std::vector<char> all(static_cast<size_t>(total));
  start_allgatherv(mine, all.data(), bytes, offsets).wait();
  return all;
}

}  // namespace dlrm
