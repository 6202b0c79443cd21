#include <algorithm>
#include <memory>
#include <numeric>

#include "dlrm/core/partition.h"
#include "dlrm/device/device.h"

#include "suite.h"

namespace dlrm::test {
namespace {

void require(bool condition, const char* what, int64_t size, const Communicator& comm) {
  if (condition) return;
  throw run_error("{} of {} is wrong on rank {} of {}", what, size, comm.rank(), comm.size());
}

/// The value of rank `from` at `i`, an integer, so that sums of floats are exact.
int64_t cell(int from, int64_t i) { return (from * 7919 + i * 31 + (i >> 9)) % 4093 - 2000; }

template <class T>
void fill(View<T> data, int rank, int64_t first = 0) {
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<T>(cell(rank, first + static_cast<int64_t>(i)));
  }
}

template <class T>
bool is_sum(View<const T> data, int ranks) {
  for (size_t i = 0; i < data.size(); ++i) {
    int64_t sum = 0;
    for (int q = 0; q < ranks; ++q) sum += cell(q, static_cast<int64_t>(i));
    if (data[i] != static_cast<T>(sum)) return false;
  }
  return true;
}

/// Every rank sends `cells` floats to every other rank. Odd ranks send from ordinary memory.
void check_blocks(Communicator& comm, Device& device, int64_t cells) {
  const auto ranks = static_cast<size_t>(comm.size());
  const auto n = static_cast<size_t>(cells);
  Array<float> shared(device, ranks * n, "blocks"), received(device, ranks * n, "blocks");
  std::vector<float> ordinary(ranks * n);
  const View<float> send = comm.rank() % 2 == 0 ? shared.view() : View<float>(ordinary);
  fill(send, comm.rank());
  const std::vector<int64_t> bytes(ranks, cells * 4);
  comm.alltoallv(send.data(), received.data(), ExchangeLayout::packed(bytes, bytes));
  for (size_t q = 0; q < ranks; ++q) {
    std::vector<float> expected(n);
    fill<float>(expected, static_cast<int>(q), comm.rank() * cells);
    require(std::equal(expected.begin(), expected.end(), received.data() + q * n), "blocks", cells,
            comm);
  }
}

}  // namespace

void check_shared_memory(Communicator& comm) {
  const std::shared_ptr<Device> device = make_cpu_device();
  Device& shared = comm.shared_memory(*device);
  for (const int64_t size : {1, 511, 513, 4097, 70001, 1100003}) {
    Array<float> floats(shared, static_cast<size_t>(size), "values");
    for (int round = 0; round < 2; ++round) {
      fill(floats.view(), comm.rank());
      comm.allreduce<float>(floats.view());
      require(is_sum<float>(floats.view(), comm.size()), "a sum in place", size, comm);
    }
    check_blocks(comm, shared, size);
  }
}

void check_many_in_flight(Communicator& comm) {
  const std::shared_ptr<Device> device = make_cpu_device();
  constexpr size_t kCalls = 150;
  constexpr size_t kSizes[] = {3, 300, 6007};
  std::vector<Array<float>> data;
  std::vector<Pending> pending;
  for (size_t k = 0; k < kCalls; ++k) {
    Device& memory = k % 2 == 0 ? comm.shared_memory(*device) : *device;
    data.emplace_back(memory, kSizes[k % 3], "values");
    fill(data[k].view(), comm.rank());
  }
  for (size_t k = 0; k < kCalls; ++k) {
    pending.push_back(comm.start_allreduce<float>(data[k].view()));
    if (k % 10 == 9) pending.push_back(comm.start_barrier());
  }
  // The first rank waits for the last call first. The others wait for the first call first.
  if (comm.rank() == 0) std::reverse(pending.begin(), pending.end());
  for (Pending& call : pending) call.wait();
  for (const Array<float>& sums : data) {
    require(is_sum<float>(sums.view(), comm.size()), "one of many sums",
            static_cast<int64_t>(sums.size()), comm);
  }
}

void check_rank_running_ahead(Communicator& comm) {
  const std::unique_ptr<Communicator> other = comm.duplicate();
  // The root does not have to wait for other ranks, and each of them receives the value that was
  // sent.
  for (int64_t i = 0; i < 100; ++i) {
    int64_t value = comm.rank() == 0 ? i : -1;
    other->broadcast(&value, sizeof value, 0);
    require(value == i, "a broadcast", i, comm);
  }
}

}  // namespace dlrm::test
