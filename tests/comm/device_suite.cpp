#include "device_suite.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace dlrm::test {
namespace {

const int64_t kSizes[] = {0, 1, 3, 64, 1023, 30011};

/// Device memory that is filled and read in stream order.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, Stream& stream, const std::vector<T>& values)
      : device_(device),
        staging_(device, values.size(), "test"),
        data_(device, values.size(), "test") {
    std::copy(values.begin(), values.end(), staging_.data());
    device.copy(data_.data(), staging_.data(), values.size() * sizeof(T), stream);
  }
  T* data() const { return data_.data(); }
  View<T> view() const { return data_.view(); }
  std::vector<T> read(Stream& stream) {
    device_.copy(staging_.data(), data_.data(), data_.size() * sizeof(T), stream);
    stream.synchronize();
    return {staging_.data(), staging_.data() + staging_.size()};
  }

 private:
  Device& device_;
  HostArray<T> staging_;
  Array<T> data_;
};

template <class T>
void require_same(const std::vector<T>& found, const std::vector<T>& expected, const char* what,
                  const DeviceRank& rank) {
  if (found.size() == expected.size() &&
      (found.empty() ||
       std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)) == 0)) {
    return;
  }
  size_t at = 0;
  while (at < found.size() && std::memcmp(&found[at], &expected[at], sizeof(T)) == 0) ++at;
  throw run_error("{} of {} values is wrong at {} on rank {} of {}", what, found.size(), at,
                  rank.host.rank(), rank.host.size());
}

template <class T>
std::vector<T> values(int rank, int64_t count, bool awkward = true) {
  std::vector<T> result;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint32_t>(rank * 40503 + i * 2654435761);
    const float small = static_cast<float>(bits % 2001) - 1000;  // integers, so that sums are exact
    const float scale = bits % 7 == 0 ? 1e6f : bits % 5 == 0 ? 1e-4f : 0.37f;
    result.push_back(static_cast<T>(awkward ? small * scale : small));
  }
  return result;
}

int64_t block(int from, int to, int64_t scale) { return (from * 7 + to * 3) % 4 * scale; }

/// Blocks with gaps of three bytes between them.
ExchangeLayout layout_with_gaps(const Communicator& comm, int64_t scale) {
  ExchangeLayout layout;
  int64_t send = 2, receive = 1;
  for (int q = 0; q < comm.size(); ++q) {
    layout.send_bytes.push_back(block(comm.rank(), q, scale));
    layout.receive_bytes.push_back(block(q, comm.rank(), scale));
    layout.send_offsets.push_back(send);
    layout.receive_offsets.push_back(receive);
    send += layout.send_bytes.back() + 3;
    receive += layout.receive_bytes.back() + 3;
  }
  return layout;
}

struct Blocks {
  std::vector<char> send, receive;
  ExchangeLayout layout;
};

Blocks blocks_of(const Communicator& comm, int64_t scale) {
  Blocks b{.send = {}, .receive = {}, .layout = layout_with_gaps(comm, scale)};
  const auto room = static_cast<size_t>(comm.size()) * 3 + 3;
  b.send.resize(static_cast<size_t>(b.layout.send_total()) + room);
  for (size_t i = 0; i < b.send.size(); ++i) {
    b.send[i] = static_cast<char>(i * 7 + static_cast<size_t>(comm.rank()) * 31 + (i >> 8));
  }
  b.receive.assign(static_cast<size_t>(b.layout.receive_total()) + room, 'x');
  return b;
}

template <class T>
void check_sum(const DeviceRank& rank, int64_t count, bool exact, DType wire) {
  const std::unique_ptr<Stream> stream = rank.device.make_stream();
  std::vector<T> expected = values<T>(rank.host.rank(), count, exact);
  OnDevice<T> data(rank.device, *stream, expected);
  Pending pending = rank.wire.start_allreduce<T>(data.view(), wire, stream.get());
  rank.host.allreduce<T>(expected, wire);
  pending.wait(*stream);
  require_same(data.read(*stream), expected, "allreduce", rank);
}

void check_alltoallv(const DeviceRank& rank) {
  const std::unique_ptr<Stream> stream = rank.device.make_stream();
  for (const int64_t scale : kSizes) {
    Blocks b = blocks_of(rank.host, scale);
    OnDevice<char> send(rank.device, *stream, b.send);
    OnDevice<char> receive(rank.device, *stream, b.receive);
    Pending pending =
        rank.wire.start_alltoallv(send.data(), receive.data(), b.layout, stream.get());
    rank.host.alltoallv(b.send.data(), b.receive.data(), b.layout);
    pending.wait(*stream);
    require_same(receive.read(*stream), b.receive, "alltoallv", rank);
  }
}

void check_allgatherv(const DeviceRank& rank) {
  const std::unique_ptr<Stream> stream = rank.device.make_stream();
  for (const int64_t size : kSizes) {
    std::vector<int64_t> bytes, offsets;
    int64_t total = 0;
    for (int q = 0; q < rank.host.size(); ++q) {
      bytes.push_back(size * (q % 3) * 4);
      offsets.push_back(total);
      total += bytes.back();
    }
    const auto mine = values<float>(rank.host.rank(), size * (rank.host.rank() % 3));
    std::vector<float> expected = rank.host.allgatherv<float>(mine);
    OnDevice<float> send(rank.device, *stream, mine);
    OnDevice<float> all(rank.device, *stream, std::vector<float>(expected.size(), -1.0f));
    rank.wire.start_allgatherv(send.data(), all.data(), bytes, offsets, stream.get()).wait(*stream);
    require_same(all.read(*stream), expected, "allgatherv", rank);

    // In place.
    std::vector<float> only_mine(expected.size(), -1.0f);
    const auto own = static_cast<size_t>(offsets[static_cast<size_t>(rank.host.rank())]) / 4;
    std::copy(mine.begin(), mine.end(), only_mine.begin() + static_cast<int64_t>(own));
    OnDevice<float> table(rank.device, *stream, only_mine);
    rank.wire.start_allgatherv(table.data() + own, table.data(), bytes, offsets, stream.get())
        .wait(*stream);
    require_same(table.read(*stream), expected, "allgatherv in place", rank);
  }
}

void check_broadcast(const DeviceRank& rank) {
  const std::unique_ptr<Stream> stream = rank.device.make_stream();
  for (const int64_t size : kSizes) {
    const int root = static_cast<int>(size % rank.host.size());
    OnDevice<double> data(rank.device, *stream, values<double>(rank.host.rank(), size));
    rank.wire.start_broadcast(data.data(), size * 8, root, stream.get()).wait(*stream);
    require_same(data.read(*stream), values<double>(root, size), "broadcast", rank);
  }
}

void check_allreduce(const DeviceRank& rank, bool exact) {
  for (const int64_t size : kSizes) {
    check_sum<float>(rank, size, exact, DType::kFloat32);
    check_sum<double>(rank, size, exact, DType::kFloat32);
    check_sum<int64_t>(rank, size, exact, DType::kFloat32);
  }
}

void check_bf16_allreduce(const DeviceRank& rank) {
  for (const int64_t size : kSizes) check_sum<float>(rank, size, true, DType::kBFloat16);
}

void check_calls_in_flight(const DeviceRank& rank) {
  const std::unique_ptr<Stream> one = rank.device.make_stream();
  const std::unique_ptr<Stream> two = rank.device.make_stream();
  for (int round = 0; round < 4; ++round) {
    Blocks b = blocks_of(rank.host, 777);
    std::vector<float> sums = values<float>(rank.host.rank(), 5001, false);
    std::vector<double> doubles = values<double>(rank.host.rank(), 17, false);
    OnDevice<char> send(rank.device, *one, b.send), receive(rank.device, *one, b.receive);
    OnDevice<float> floats_there(rank.device, *two, sums);
    OnDevice<double> doubles_there(rank.device, *one, doubles);
    Pending first =
        rank.wire.start_allreduce<float>(floats_there.view(), DType::kFloat32, two.get());
    Pending second = rank.wire.start_alltoallv(send.data(), receive.data(), b.layout, one.get());
    Pending third = rank.wire.start_barrier();
    Pending fourth =
        rank.wire.start_allreduce<double>(doubles_there.view(), DType::kFloat32, one.get());
    // Each rank waits in an order of its own, on streams or on the host.
    Pending* order[] = {&first, &second, &third, &fourth};
    std::rotate(order, order + (rank.host.rank() + round) % 4, order + 4);
    for (Pending* pending : order) {
      if ((rank.host.rank() + round) % 3 == 0) {
        pending->wait();
      } else {
        pending->wait(pending == &first ? *two : *one);
      }
    }
    rank.host.alltoallv(b.send.data(), b.receive.data(), b.layout);
    rank.host.allreduce<float>(sums);
    rank.host.allreduce<double>(doubles);
    require_same(receive.read(*one), b.receive, "alltoallv in flight", rank);
    require_same(floats_there.read(*two), sums, "allreduce in flight", rank);
    require_same(doubles_there.read(*one), doubles, "allreduce of doubles in flight", rank);
  }
}

void check_calls_in_turn(const DeviceRank& rank) {
  const std::unique_ptr<Stream> one = rank.device.make_stream();
  const std::unique_ptr<Stream> two = rank.device.make_stream();
  for (int round = 0; round < 8; ++round) {
    Blocks a = blocks_of(rank.host, 777), b = blocks_of(rank.host, 777);
    for (char& byte : b.send) byte = static_cast<char>(~byte);
    OnDevice<char> a_send(rank.device, *one, a.send), a_receive(rank.device, *one, a.receive);
    OnDevice<char> b_send(rank.device, *two, b.send), b_receive(rank.device, *two, b.receive);
    rank.wire.start_alltoallv(a_send.data(), a_receive.data(), a.layout, one.get()).wait(*one);
    rank.wire.start_alltoallv(b_send.data(), b_receive.data(), b.layout, two.get()).wait(*two);
    rank.host.alltoallv(a.send.data(), a.receive.data(), a.layout);
    rank.host.alltoallv(b.send.data(), b.receive.data(), b.layout);
    require_same(a_receive.read(*one), a.receive, "an alltoallv before another", rank);
    require_same(b_receive.read(*two), b.receive, "an alltoallv after another", rank);
  }
}

void check_duplicates(const DeviceRank& rank) {
  const std::unique_ptr<Communicator> other = rank.wire.duplicate();
  const std::unique_ptr<Stream> stream = rank.device.make_stream();
  std::vector<float> sums = values<float>(rank.host.rank(), 4001, false);
  OnDevice<float> here(rank.device, *stream, sums), there(rank.device, *stream, sums);
  Pending first = rank.wire.start_allreduce<float>(here.view(), DType::kFloat32, stream.get());
  Pending second = other->start_allreduce<float>(there.view(), DType::kFloat32, stream.get());
  second.wait(*stream);
  first.wait(*stream);
  rank.host.allreduce<float>(sums);
  require_same(here.read(*stream), sums, "allreduce concurrent with a duplicate's", rank);
  require_same(there.read(*stream), sums, "allreduce of a duplicate", rank);
}

}  // namespace

void check_device_everything(const DeviceRank& rank, bool exact) {
  check_alltoallv(rank);
  check_allgatherv(rank);
  check_broadcast(rank);
  check_allreduce(rank, exact);
  check_bf16_allreduce(rank);
  check_calls_in_flight(rank);
  check_calls_in_turn(rank);
  check_duplicates(rank);
}

}  // namespace dlrm::test
