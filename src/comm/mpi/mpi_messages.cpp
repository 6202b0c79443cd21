#include "mpi_messages.h"

#include <algorithm>
#include <chrono>

#include "dlrm/core/error.h"

#include "mpi_comm.h"

namespace dlrm::comm {
namespace {

// MPI's counts are ints. Longer blocks are split into several messages, which MPI keeps in order.
constexpr int64_t kMaxMessageBytes = int64_t{1} << 30;

constexpr auto kCancelTimeout = std::chrono::milliseconds(100);

}  // namespace

template <class Start>
void MpiMessages::split(int64_t bytes, bool even_if_empty, Start start) {
  if (bytes == 0 && even_if_empty) start(0, 0);
  for (int64_t begin = 0; begin < bytes; begin += kMaxMessageBytes) {
    start(begin, static_cast<int>(std::min(kMaxMessageBytes, bytes - begin)));
  }
}

void MpiMessages::receive(int from, char* data, int64_t bytes, bool even_if_empty) {
  split(bytes, even_if_empty, [&](int64_t begin, int length) {
    expected_.push_back({from, length});
    check_mpi(
        MPI_Irecv(data + begin, length, MPI_BYTE, from, tag_, comm_, &requests_.emplace_back()),
        name_);
  });
}

void MpiMessages::send(int to, const char* data, int64_t bytes, bool even_if_empty) {
  split(bytes, even_if_empty, [&](int64_t begin, int length) {
    expected_.push_back({-1, length});
    check_mpi(MPI_Isend(data + begin, length, MPI_BYTE, to, tag_, comm_, &requests_.emplace_back()),
              name_);
  });
}

bool MpiMessages::poll() {
  if (requests_.empty()) return true;
  statuses_.resize(requests_.size());
  int done = 0;
  const int code =
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (const MPI_Status& status : statuses_) check_mpi(status.MPI_ERROR, name_);
  }
  check_mpi(code, name_);
  if (!done) return false;
  for (size_t i = 0; i < expected_.size(); ++i) {
    if (expected_[i].from < 0) continue;
    int bytes = 0;
    check_mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes), name_);
    if (bytes == expected_[i].bytes) continue;
    throw run_error("{} of rank {} expects {} bytes from rank {}, which sends {}", name_, rank_,
                    expected_[i].bytes, expected_[i].from, bytes);
  }
  requests_.clear();
  expected_.clear();
  return true;
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
