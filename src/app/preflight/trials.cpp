#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <vector>

#include <fmt/core.h>

#include "dlrm/comm/device_comm.h"
#include "dlrm/device/device.h"

#include "checks.h"

namespace dlrm::preflight {
namespace {

constexpr int64_t kBlock = int64_t{1} << 20;
constexpr int kRounds = 4;

char byte_of(int from, int to, int64_t i) { return static_cast<char>(from * 31 + to * 17 + i * 7); }

std::vector<char> blocks_from(int rank, int ranks) {
  std::vector<char> blocks;
  for (int q = 0; q < ranks; ++q) {
    for (int64_t i = 0; i < kBlock; ++i) blocks.push_back(byte_of(rank, q, i));
  }
  return blocks;
}

/// Returns the number of wrong blocks among those that this rank received.
int64_t wrong_blocks(const char* received, int rank, int ranks) {
  int64_t wrong = 0;
  for (int q = 0; q < ranks; ++q) {
    const char* block = received + q * kBlock;
    bool good = true;
    for (int64_t i = 0; i < kBlock; ++i) good &= block[i] == byte_of(q, rank, i);
    wrong += good ? 0 : 1;
  }
  return wrong;
}

ExchangeLayout all_to_all(int ranks) {
  const std::vector<int64_t> bytes(static_cast<size_t>(ranks), kBlock);
  return ExchangeLayout::packed(bytes, bytes);
}

/// Returns the finding about an exchange of kRounds rounds.
Finding outcome(const char* name, World& world, int64_t wrong, double seconds,
                const std::string& with) {
  const int64_t all_wrong = [&] {
    std::vector<int64_t> sum{wrong};
    world.comm().allreduce<int64_t>(sum);
    return sum[0];
  }();
  if (all_wrong > 0) {
    return {name, false,
            fmt::format("{} of {} blocks arrived wrong: look at the network and its drivers",
                        all_wrong, world.size() * world.size())};
  }
  const double bytes = static_cast<double>(kBlock) * (world.size() - 1) * kRounds;
  if (world.size() == 1) return {name, true, fmt::format("{}: one rank, nothing travels", with)};
  return {name, true,
          fmt::format("{}: all-to-all of 1 MiB blocks at {:.2f} GB/s a rank", with,
                      bytes / seconds * 1e-9)};
}

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

}  // namespace

Finding try_exchange(World& world) {
  Communicator& comm = world.comm();
  const std::vector<char> send = blocks_from(comm.rank(), comm.size());
  std::vector<char> receive(send.size());
  const ExchangeLayout layout = all_to_all(comm.size());
  comm.alltoallv(send.data(), receive.data(), layout);  // opens the connections
  const double begin = now();
  for (int round = 0; round < kRounds; ++round) {
    comm.alltoallv(send.data(), receive.data(), layout);
  }
  return outcome("exchange", world, wrong_blocks(receive.data(), comm.rank(), comm.size()),
                 now() - begin, comm.describe());
}

Finding try_devices(World& world, const std::vector<Facts>& ranks) {
  Communicator& host = world.comm();
  const Facts& mine = ranks[static_cast<size_t>(host.rank())];
  const std::shared_ptr<Device> device = make_cuda_device(mine.local_rank % mine.gpus);
  const std::unique_ptr<Communicator> comm = make_device_comm(host, *device);
  const std::unique_ptr<Stream> stream = device->make_stream();
  const std::vector<char> blocks = blocks_from(host.rank(), host.size());
  HostArray<char> shown(*device, blocks.size(), "preflight");
  Array<char> send(*device, blocks.size(), "preflight"),
      receive(*device, blocks.size(), "preflight");
  std::copy(blocks.begin(), blocks.end(), shown.data());
  device->copy(send.data(), shown.data(), blocks.size(), *stream);
  const ExchangeLayout layout = all_to_all(host.size());
  comm->start_alltoallv(send.data(), receive.data(), layout, stream.get()).wait();
  const double begin = now();
  for (int round = 0; round < kRounds; ++round) {
    comm->start_alltoallv(send.data(), receive.data(), layout, stream.get()).wait(*stream);
  }
  stream->synchronize();
  const double seconds = now() - begin;
  device->copy(shown.data(), receive.data(), blocks.size(), *stream);
  stream->synchronize();
  return outcome("gpu exchange", world, wrong_blocks(shown.data(), host.rank(), host.size()),
                 seconds, comm->describe());
}

Finding try_folder(World& world, const std::string& folder) {
  Communicator& comm = world.comm();
  const std::string path = folder + "/.dlrm_preflight";
  uint64_t token = static_cast<uint64_t>(now() * 1e9);
  comm.broadcast(&token, sizeof token, 0);
  if (comm.rank() == 0) std::ofstream(path, std::ios::trunc) << token;
  comm.barrier();
  uint64_t found = 0;
  std::ifstream(path) >> found;
  const std::vector<int> seen = comm.allgather<int>(found == token ? 1 : 0);
  if (comm.rank() == 0) std::remove(path.c_str());
  if (!seen[0]) {
    return {"folder", false,
            fmt::format("rank 0 cannot write into {}: give another by --folder", folder)};
  }
  for (size_t q = 1; q < seen.size(); ++q) {
    if (seen[q]) continue;
    return {"folder", false,
            fmt::format("rank {} does not see what rank 0 writes into {}: checkpoints and data "
                        "need a folder that all nodes share",
                        q, folder)};
  }
  return {"folder", true, fmt::format("{} is the same on all ranks", folder)};
}

}  // namespace dlrm::preflight
