#include "mpi_messages.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dlrm/core/error.h"

#include "mpi_comm.h"

namespace dlrm::comm {
namespace {

// Longer blocks are split into several messages, which MPI keeps in order. MPI's counts are ints.
constexpr int64_t kMaxMessageBytes = int64_t{1} << 30;

// To other nodes. Open MPI sends longer messages over TCP only once the receiver has asked for
// them, by the same connection. Requests would wait behind what the receiver itself is sending, so
// that two nodes would send in turn. Its limit is 64 KiB with a header.
constexpr int64_t kMaxNetworkMessageBytes = 60 << 10;

// Requests that are tested at once.
constexpr size_t kTested = 64;

constexpr auto kCancelTimeout = std::chrono::milliseconds(100);

}  // namespace

/// The first message takes what is left over, so that most wrong lengths of a block show in it.
template <class Start>
void MpiMessages::split(int peer, int64_t bytes, bool even_if_empty, Start start) {
  if (bytes == 0 && even_if_empty) start(0, 0);
  const bool leaves_node = nodes_ && nodes_->node_of(peer) != nodes_->node();
  const int64_t most = leaves_node ? kMaxNetworkMessageBytes : kMaxMessageBytes;
  int64_t length = bytes > 0 ? (bytes - 1) % most + 1 : 0;
  for (int64_t begin = 0; begin < bytes; begin += std::exchange(length, most)) {
    start(begin, static_cast<int>(length));
  }
}

void MpiMessages::receive(int from, char* data, int64_t bytes, bool even_if_empty) {
  split(from, bytes, even_if_empty, [&](int64_t begin, int length) {
    expected_.push_back({from, length});
    check_mpi(MPI_Irecv(data + begin, length, MPI_BYTE, from, tag_, comm_,
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              name_);
  });
}

void MpiMessages::send(int to, const char* data, int64_t bytes, bool even_if_empty) {
  split(to, bytes, even_if_empty, [&](int64_t begin, int length) {
    expected_.push_back({-1, length});
    check_mpi(MPI_Isend(data + begin, length, MPI_BYTE, to, tag_, comm_,
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              name_);
  });
}

bool MpiMessages::poll() {
  statuses_.resize(std::min(kTested, requests_.size()));
  while (complete_ < requests_.size()) {
    const size_t tested = std::min(kTested, requests_.size() - complete_);
    int done = 0;
    const int code = MPI_Testall(static_cast<int>(tested), requests_.data() + complete_, &done,
                                 statuses_.data());
    if (code == MPI_ERR_IN_STATUS) {
      for (size_t i = 0; i < tested; ++i) check_mpi(statuses_[i].MPI_ERROR, name_);
    }
    check_mpi(code, name_);
    if (!done) return false;
    for (size_t i = 0; i < tested; ++i) check_length(expected_[complete_ + i], statuses_[i]);
    complete_ += tested;
  }
  requests_.clear();
  expected_.clear();
  complete_ = 0;
  return true;
}

void MpiMessages::check_length(const Expected& expected, const MPI_Status& status) const {
  if (expected.from < 0) return;
  int bytes = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), name_);
  if (bytes == expected.bytes) return;
  throw run_error("{} of rank {} expects {} bytes from rank {}, which sends {}", name_, rank_,
                  expected.bytes, expected.from, bytes);
}

void MpiMessages::cancel() {
  const auto until = std::chrono::steady_clock::now() + kCancelTimeout;
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    int done = 0;
    while (!done && std::chrono::steady_clock::now() < until) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    }
    if (!done && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

}  // namespace dlrm::comm
