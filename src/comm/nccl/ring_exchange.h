#pragma once
#include <cstddef>

#include "dlrm/core/view.h"

#include "nccl_session.h"

namespace dlrm::comm {

/// Queues one NCCL group in which each of `ranks` sends the block from(q) to each other rank
/// ranks[q], and receives the block into(q) from it. This rank is ranks[place].
template <class From, class Into>
void exchange_among(NcclSession& session, NcclLane& lane, const char* name, View<const int> ranks,
                    size_t place, From from, Into into) {
  const size_t n = ranks.size();
  const auto queue = [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t s) {
    for (size_t hop = 1; hop < n; ++hop) {
      const size_t to = (place + hop) % n, source = (place + n - hop) % n;
      const auto send = from(to);
      const auto receive = into(source);
      if (!send.empty()) {
        session.check(nccl.send(send.data(), send.size_bytes(), ncclInt8, ranks[to], comm, s));
      }
      if (!receive.empty()) {
        session.check(
            nccl.recv(receive.data(), receive.size_bytes(), ncclInt8, ranks[source], comm, s));
      }
    }
  };
  session.group(name, lane, queue);
}

}  // namespace dlrm::comm
