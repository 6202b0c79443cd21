#include "traffic.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "dlrm/comm/device_comm.h"
#include "dlrm/device/device.h"
#include "dlrm/wire/message_bytes.h"

#include "comm/collectives/chain_choice.h"
#include "comm/world/node_layout.h"

namespace dlrm::test {
namespace {

struct Bytes {
  std::vector<int64_t> sent, received;  // [nodes]
};

/// What the nodes exchange with one another in `call`.
Bytes traffic_of(Communicator& comm, const std::function<void()>& call) {
  const NodeTraffic before = comm.node_traffic();
  call();
  const NodeTraffic after = comm.node_traffic();
  const auto sent = comm.allgather<int64_t>(after.sent - before.sent);
  const auto received = comm.allgather<int64_t>(after.received - before.received);
  const std::vector<int> nodes = comm.nodes();
  const auto count = static_cast<size_t>(nodes.back()) + 1;
  Bytes bytes{std::vector<int64_t>(count), std::vector<int64_t>(count)};
  for (size_t q = 0; q < nodes.size(); ++q) {
    bytes.sent[static_cast<size_t>(nodes[q])] += sent[q];
    bytes.received[static_cast<size_t>(nodes[q])] += received[q];
  }
  return bytes;
}

void require(const std::vector<int64_t>& found, const std::vector<int64_t>& expected,
             const char* what, int64_t size) {
  for (size_t node = 0; node < found.size(); ++node) {
    if (found[node] == expected[node]) continue;
    throw run_error("{} of {}: node {} has {} bytes, not {}", what, size, node, found[node],
                    expected[node]);
  }
}

int64_t sum_of(const std::vector<int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

/// Sums of several ranks travel in fp32.
void require_bytes_of_chain(const Bytes& bytes, int64_t count, int64_t wire_bytes) {
  std::vector<int64_t> sent, received;
  for (size_t node = 0; node < bytes.sent.size(); ++node) {
    const int64_t above = node + 1 < bytes.sent.size(), below = node > 0;
    sent.push_back(count * (above * 4 + below * wire_bytes));
    received.push_back(count * (below * 4 + above * wire_bytes));
  }
  require(bytes.sent, sent, "allreduce sends", count);
  require(bytes.received, received, "allreduce receives", count);
}

void require_bytes_of_single_ranks(const Bytes& bytes, int64_t count, int64_t wire_bytes) {
  const auto nodes = static_cast<int64_t>(bytes.sent.size());
  const bool one_exchange = count * wire_bytes * (nodes - 1) <= kOneExchangeBytes;
  const int64_t expected = (one_exchange ? nodes : 2) * (nodes - 1) * count * wire_bytes;
  if (sum_of(bytes.sent) != expected || sum_of(bytes.received) != expected) {
    throw run_error("allreduce of {} sends {} bytes, not {}", count, sum_of(bytes.sent), expected);
  }
  // The same for every node, but for the rounding of parts.
  const auto [low, high] = std::minmax_element(bytes.sent.begin(), bytes.sent.end());
  if (*high - *low > nodes * wire_bytes) throw run_error("allreduce of {} is uneven", count);
}

/// The bits of sums depend on the order of ranks.
float value_at(int rank, int64_t i) {
  const auto value = static_cast<float>((rank * 7919 + i * 31 + (i >> 9)) % 4093 - 2000);
  return value * (i % 3 == 0 ? 1e-3f : rank % 2 == 0 ? 1e4f : 1.1f);
}

float sum_at(int ranks, int64_t i, DType wire) {
  const auto travelled = [&](float x) {
    return wire == DType::kBFloat16 ? static_cast<float>(BFloat16(x)) : x;
  };
  float sum = travelled(value_at(0, i));
  for (int q = 1; q < ranks; ++q) sum += travelled(value_at(q, i));
  return travelled(sum);
}

void check_allreduce(Communicator& comm, Communicator& host, Stream* stream, Device& device) {
  const comm::NodeLayout& nodes = *host.node_layout();
  for (const int64_t count : {1, 2, 3, 5, 7, 1001, 8191, 50001, 700001}) {
    for (const DType wire : {DType::kFloat32, DType::kBFloat16}) {
      Array<float> data(device, static_cast<size_t>(count), "values");
      for (int64_t i = 0; i < count; ++i) data.data()[i] = value_at(comm.rank(), i);
      const Bytes bytes =
          traffic_of(host, [&] { comm.start_allreduce<float>(data.view(), wire, stream).wait(); });
      const int64_t step = count > 100000 ? 13 : 1;  // the reference takes most of the time
      for (int64_t i = 0; i < count; i += step) {
        if (data.data()[i] == sum_at(comm.size(), i, wire)) continue;
        throw run_error("sum {} of {} is wrong on rank {}", i, count, comm.rank());
      }
      const int64_t wire_bytes = wire == DType::kFloat32 ? 4 : 2;
      if (nodes.largest() == 1) {
        require_bytes_of_single_ranks(bytes, count, wire_bytes);
      } else if (nodes.nodes() == 2 || comm::chain_pays(nodes, count * 4)) {
        require_bytes_of_chain(bytes, count, wire_bytes);
      }
    }
  }
}

/// The received blocks lie in rank order or backwards.
void check_gather(Communicator& comm, Communicator& host, Stream* stream, int64_t scale,
                  bool backwards) {
  const std::vector<int> nodes = host.nodes();
  const auto ranks = static_cast<size_t>(comm.size());
  const auto own = static_cast<size_t>(comm.rank());
  std::vector<int64_t> bytes, offsets(ranks);
  for (size_t q = 0; q < ranks; ++q) bytes.push_back((static_cast<int64_t>(q) * 5 + 1) % 4 * scale);
  int64_t total = 0;
  for (size_t k = 0; k < ranks; ++k) {
    const size_t q = backwards ? ranks - 1 - k : k;
    offsets[q] = total;
    total += bytes[q];
  }
  const auto byte_at = [](size_t rank, int64_t i) {
    return static_cast<char>(static_cast<int64_t>(rank) * 37 + i * 11 + (i >> 8));
  };
  std::vector<char> mine, all(static_cast<size_t>(total), 'x');
  for (int64_t i = 0; i < bytes[own]; ++i) mine.push_back(byte_at(own, i));
  const Bytes traffic = traffic_of(
      host, [&] { comm.start_allgatherv(mine.data(), all.data(), bytes, offsets, stream).wait(); });
  for (size_t q = 0; q < ranks; ++q) {
    for (int64_t i = 0; i < bytes[q]; ++i) {
      if (all[static_cast<size_t>(offsets[q] + i)] == byte_at(q, i)) continue;
      throw run_error("byte {} of rank {}'s block of {} is wrong on rank {}", i, q, bytes[q], own);
    }
  }
  const size_t count = traffic.sent.size();
  std::vector<int64_t> of_node(count), foreign(count, total), sent;
  for (size_t q = 0; q < ranks; ++q) of_node[static_cast<size_t>(nodes[q])] += bytes[q];
  for (size_t k = 0; k < count; ++k) {
    foreign[k] -= of_node[k];
    sent.push_back(of_node[k] * static_cast<int64_t>(count - 1));
  }
  require(traffic.received, foreign, "all-gather receives", scale);
  require(traffic.sent, sent, "all-gather sends", scale);
}

void check_broadcast(Communicator& comm, int root, int64_t size) {
  std::vector<char> data(static_cast<size_t>(size), comm.rank() == root ? 'r' : 'x');
  const Bytes traffic = traffic_of(comm, [&] { comm.broadcast(data.data(), size, root); });
  if (data != std::vector<char>(static_cast<size_t>(size), 'r')) {
    throw run_error("broadcast of {} bytes from rank {} is wrong", size, root);
  }
  std::vector<int64_t> received(traffic.received.size(), size);
  received[static_cast<size_t>(comm.nodes()[static_cast<size_t>(root)])] = 0;
  require(traffic.received, received, "broadcast receives", size);
}

}  // namespace

void check_node_traffic(Communicator& comm) {
  const std::shared_ptr<Device> device = make_cpu_device();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const std::unique_ptr<Communicator> staged =
      make_device_comm(comm, *device, {.kind = DeviceCommKind::kStaged});
  check_allreduce(comm, comm, nullptr, *device);
  check_allreduce(comm, comm, nullptr, comm.shared_memory(*device));
  check_allreduce(*staged, comm, stream.get(), *device);
  for (const int64_t scale : {0, 1, 3, 1001, 70001}) {
    for (const bool backwards : {false, true}) {
      check_gather(comm, comm, nullptr, scale, backwards);
      check_gather(*staged, comm, stream.get(), scale, backwards);
    }
  }
  for (const int64_t size : {0, 1, 5, 100003}) {
    check_broadcast(comm, 0, size);
    check_broadcast(comm, comm.size() - 1, size);
  }
}

}  // namespace dlrm::test
