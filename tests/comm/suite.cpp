#include "suite.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>

namespace dlrm::test {
namespace {

const int64_t kSizes[] = {0, 1, 2, 3, 7, 64, 1000, 1023, 5000, 70001};

void require(bool condition, const char* what, int64_t size, const Communicator& comm) {
  if (!condition) {
    throw run_error("{} of {} is wrong on rank {} of {}", what, size, comm.rank(), comm.size());
  }
}

int64_t block_bytes(int from, int to, int64_t scale) { return (from * 7 + to * 3) % 5 * scale; }

char byte_of(int from, int to, int64_t i) {
  return static_cast<char>(from * 31 + to * 17 + i * 7 + (i >> 8));
}

/// Element i of a rank. The bits of the sum depend on the order of ranks.
float awkward(int rank, int64_t i) {
  const auto bits = static_cast<uint32_t>(rank * 2654435761u + static_cast<uint32_t>(i) * 40503u);
  const auto mantissa = static_cast<float>(bits % 1000003u) / 1000.0f - 500.0f;
  return mantissa * (bits % 7 == 0 ? 1e6f : bits % 5 == 0 ? 1e-4f : 1.0f);
}

template <class T>
T value_of(int rank, int64_t i) {
  return static_cast<T>(awkward(rank, i));
}

template <class T>
std::vector<T> values(int rank, int64_t count) {
  std::vector<T> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) result[static_cast<size_t>(i)] = value_of<T>(rank, i);
  return result;
}

template <class T>
T sum_at(int ranks, int64_t i) {
  T sum = value_of<T>(0, i);
  for (int q = 1; q < ranks; ++q) sum += value_of<T>(q, i);
  return sum;
}

template <class T>
void check_sums(Communicator& comm, int64_t count) {
  std::vector<T> data = values<T>(comm.rank(), count);
  comm.allreduce<T>(data);
  for (int64_t i = 0; i < count; ++i) {
    require(data[static_cast<size_t>(i)] == sum_at<T>(comm.size(), i), "allreduce", count, comm);
  }
}

struct Buffers {
  std::vector<char> send, receive;
  ExchangeLayout layout;
};

Buffers alltoall_buffers(Communicator& comm, int64_t scale) {
  Buffers b;
  std::vector<int64_t> to, from;
  for (int q = 0; q < comm.size(); ++q) {
    to.push_back(block_bytes(comm.rank(), q, scale));
    from.push_back(block_bytes(q, comm.rank(), scale));
  }
  b.layout = ExchangeLayout::packed(to, from);
  for (int q = 0; q < comm.size(); ++q) {
    for (int64_t i = 0; i < to[static_cast<size_t>(q)]; ++i) {
      b.send.push_back(byte_of(comm.rank(), q, i));
    }
  }
  b.receive.assign(static_cast<size_t>(b.layout.receive_total()), 'x');
  return b;
}

void check_received(Communicator& comm, const Buffers& b, int64_t scale) {
  auto at = b.receive.begin();
  for (int q = 0; q < comm.size(); ++q) {
    for (int64_t i = 0; i < block_bytes(q, comm.rank(), scale); ++i) {
      require(*at++ == byte_of(q, comm.rank(), i), "alltoallv", scale, comm);
    }
  }
}

}  // namespace

void check_alltoallv(Communicator& comm) {
  for (const int64_t scale : kSizes) {
    Buffers b = alltoall_buffers(comm, scale);
    comm.alltoallv(b.send.data(), b.receive.data(), b.layout);
    check_received(comm, b, scale);
  }
}

void check_allgatherv(Communicator& comm) {
  for (const int64_t size : kSizes) {
    const int64_t mine = size * (comm.rank() % 3);
    std::vector<int64_t> counts;
    const auto all = comm.allgatherv<float>(values<float>(comm.rank(), mine), &counts);
    size_t at = 0;
    for (int q = 0; q < comm.size(); ++q) {
      require(counts[static_cast<size_t>(q)] == size * (q % 3), "allgatherv", size, comm);
      for (int64_t i = 0; i < size * (q % 3); ++i) {
        require(all[at++] == awkward(q, i), "allgatherv", size, comm);
      }
    }
    require(at == all.size(), "allgatherv", size, comm);
  }
  const std::vector<int> ranks = comm.allgather<int>(comm.rank() * 3);
  for (int q = 0; q < comm.size(); ++q) {
    require(ranks[static_cast<size_t>(q)] == q * 3, "allgather", q, comm);
  }
  // On rank 0 alone.
  const int64_t own = (comm.rank() + 1) % 3;
  const std::vector<float> gathered =
      comm.gatherv<float>(values<float>(comm.rank(), own), comm.allgather<int64_t>(own));
  size_t next = 0;
  for (int q = 0; comm.rank() == 0 && q < comm.size(); ++q) {
    for (int64_t i = 0; i < (q + 1) % 3; ++i) {
      require(gathered.at(next++) == awkward(q, i), "gatherv", q, comm);
    }
  }
  require(next == gathered.size(), "gatherv", static_cast<int64_t>(next), comm);
  // In place.
  std::vector<int64_t> table(static_cast<size_t>(comm.size()), -1), eights(table.size(), 8), places;
  for (int q = 0; q < comm.size(); ++q) places.push_back(q * 8);
  table[static_cast<size_t>(comm.rank())] = comm.rank();
  comm.start_allgatherv(&table[static_cast<size_t>(comm.rank())], table.data(), eights, places)
      .wait();
  for (int q = 0; q < comm.size(); ++q) {
    require(table[static_cast<size_t>(q)] == q, "allgatherv in place", q, comm);
  }
}

void check_broadcast(Communicator& comm) {
  for (const int64_t size : kSizes) {
    const int root = static_cast<int>(size % comm.size());
    std::vector<float> data = values<float>(comm.rank(), size);
    comm.broadcast(data.data(), size * 4, root);
    require(data == values<float>(root, size), "broadcast", size, comm);
  }
}

void check_reductions(Communicator& comm) {
  for (const int64_t size : kSizes) {
    check_sums<float>(comm, size);
    check_sums<double>(comm, size);
    check_sums<int64_t>(comm, size);
    std::vector<int64_t> largest;
    for (int64_t i = 0; i < size; ++i) largest.push_back((comm.rank() * 5 + i) % 7 - 10);
    comm.allreduce_max(largest);
    for (int64_t i = 0; i < size; ++i) {
      int64_t expected = -100;
      for (int q = 0; q < comm.size(); ++q) expected = std::max(expected, (q * 5 + i) % 7 - 10);
      require(largest[static_cast<size_t>(i)] == expected, "allreduce_max", size, comm);
    }
  }
}

void check_bf16_allreduce(Communicator& comm) {
  const auto rounded = [](float x) { return static_cast<float>(BFloat16(x)); };
  for (const int64_t size : kSizes) {
    std::vector<float> data = values<float>(comm.rank(), size);
    comm.allreduce<float>(data, DType::kBFloat16);
    for (int64_t i = 0; i < size; ++i) {
      float sum = awkward(0, i);
      if (comm.size() > 1) {
        sum = rounded(sum);
        for (int q = 1; q < comm.size(); ++q) sum += rounded(awkward(q, i));
        sum = rounded(sum);
      }
      require(data[static_cast<size_t>(i)] == sum, "allreduce over bf16", size, comm);
    }
  }
}

void check_in_flight(Communicator& comm) {
  Buffers b = alltoall_buffers(comm, 777);
  std::vector<float> small = values<float>(comm.rank(), 10);
  std::vector<float> large = values<float>(comm.rank(), 9999);
  std::vector<double> doubles = values<double>(comm.rank(), 4321);
  Pending first = comm.start_allreduce<float>(large);
  Pending second = comm.start_alltoallv(b.send.data(), b.receive.data(), b.layout);
  Pending third = comm.start_allreduce<float>(small);
  Pending fourth = comm.start_barrier();
  Pending fifth = comm.start_allreduce<double>(doubles);
  // Every rank waits in an order of its own.
  Pending* order[] = {&first, &second, &third, &fourth, &fifth};
  std::rotate(order, order + comm.rank() % 5, order + 5);
  if (comm.rank() % 2 == 1) std::reverse(order, order + 5);
  for (Pending* pending : order) pending->wait();
  check_received(comm, b, 777);
  for (int64_t i = 0; i < 10; ++i) {
    require(small[static_cast<size_t>(i)] == sum_at<float>(comm.size(), i), "small", i, comm);
  }
  for (int64_t i = 0; i < 9999; ++i) {
    require(large[static_cast<size_t>(i)] == sum_at<float>(comm.size(), i), "large", i, comm);
  }
  for (int64_t i = 0; i < 4321; ++i) {
    require(doubles[static_cast<size_t>(i)] == sum_at<double>(comm.size(), i), "doubles", i, comm);
  }
}

void check_duplicates(Communicator& comm) {
  const std::unique_ptr<Communicator> other = comm.duplicate();
  const std::unique_ptr<Communicator> third = other->duplicate();
  Communicator* comms[] = {&comm, other.get(), third.get()};
  std::vector<std::vector<float>> data(3, values<float>(comm.rank(), 5003));
  // Ranks start on the communicators in different orders, which is allowed between communicators.
  std::vector<Pending> pending(3);
  for (size_t k = 0; k < 3; ++k) {
    const size_t which = (k + static_cast<size_t>(comm.rank())) % 3;
    for (size_t i = 0; i < 5003; ++i) data[which][i] *= static_cast<float>(which + 1);
    pending[which] = comms[which]->start_allreduce<float>(data[which]);
  }
  for (size_t k = 3; k-- > 0;) pending[(k + static_cast<size_t>(comm.rank())) % 3].wait();
  for (size_t which = 0; which < 3; ++which) {
    const auto factor = static_cast<float>(which + 1);
    for (int64_t i = 0; i < 5003; ++i) {
      float sum = awkward(0, i) * factor;
      for (int q = 1; q < comm.size(); ++q) sum += awkward(q, i) * factor;
      require(data[which][static_cast<size_t>(i)] == sum, "duplicate", i, comm);
    }
  }
}

void check_blocks_of_one_peer(Communicator& comm) {
  if (comm.size() < 3) return;
  const std::unique_ptr<Communicator> other = comm.duplicate();
  const auto ranks = static_cast<size_t>(comm.size());
  const auto rank = static_cast<size_t>(comm.rank());
  const size_t to = (rank + ranks - 1) % ranks, from = (rank + 1) % ranks;
  for (const int64_t size : {int64_t{3}, int64_t{70001}, int64_t{5}}) {
    std::vector<int64_t> sent(ranks), received(ranks);
    sent[to] = received[from] = size;
    const ExchangeLayout layout = ExchangeLayout::packed(sent, received);
    std::vector<char> send(static_cast<size_t>(size)), receive(send.size());
    for (int64_t i = 0; i < size; ++i) {
      send[static_cast<size_t>(i)] = byte_of(comm.rank(), static_cast<int>(to), i);
    }
    Pending call;
    if (rank != 1) call = comm.start_alltoallv(send.data(), receive.data(), layout);
    other->barrier();
    require(rank != 0 || !call.poll(), "a block that is not sent yet", size, comm);
    other->barrier();
    if (rank == 1) call = comm.start_alltoallv(send.data(), receive.data(), layout);
    call.wait();
    for (int64_t i = 0; i < size; ++i) {
      const char expected = byte_of(static_cast<int>(from), comm.rank(), i);
      require(receive[static_cast<size_t>(i)] == expected, "a block of one peer", size, comm);
    }
  }
}

void check_random_interleavings(Communicator& comm) {
  std::mt19937 shared(5);  // the same on every rank: determines the calls
  std::mt19937 own(static_cast<unsigned>(comm.rank()) +
                   100);  // differs among ranks: determines polls and waits
  for (int round = 0; round < 20; ++round) {
    const size_t calls = 1 + shared() % 6;
    std::vector<std::vector<float>> data;
    std::vector<Pending> pending;
    for (size_t k = 0; k < calls; ++k) {
      data.push_back(values<float>(comm.rank(), static_cast<int64_t>(shared() % 4000)));
    }
    for (size_t k = 0; k < calls; ++k) {
      pending.push_back(comm.start_allreduce<float>(data[k]));
      if (own() % 2) pending[own() % pending.size()].poll();
    }
    std::vector<size_t> order(calls);
    for (size_t k = 0; k < calls; ++k) order[k] = k;
    std::shuffle(order.begin(), order.end(), own);
    for (const size_t k : order) {
      if (own() % 4) pending[k].wait();
    }
    pending.clear();  // waits for the others
    for (const auto& sums : data) {
      for (size_t i = 0; i < sums.size(); ++i) {
        require(sums[i] == sum_at<float>(comm.size(), static_cast<int64_t>(i)), "interleaved",
                static_cast<int64_t>(sums.size()), comm);
      }
    }
  }
}

void check_everything(Communicator& comm) {
  check_alltoallv(comm);
  check_allgatherv(comm);
  check_broadcast(comm);
  check_reductions(comm);
  check_bf16_allreduce(comm);
  check_in_flight(comm);
  check_duplicates(comm);
  check_blocks_of_one_peer(comm);
  check_random_interleavings(comm);
  check_shared_memory(comm);
  check_many_in_flight(comm);
  check_rank_running_ahead(comm);
  comm.barrier();
}

std::vector<float> awkward_sums(Communicator& comm, int64_t count, DType wire) {
  std::vector<float> data = values<float>(comm.rank(), count);
  comm.allreduce<float>(data, wire);
  return data;
}

}  // namespace dlrm::test
