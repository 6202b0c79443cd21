#include "dlrm/device/device.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/device/staging_buffer.h"
#include "dlrm/device/transfer.h"
#include "dlrm/device/utilisation.h"

#include "error_of.h"

namespace dlrm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class EveryDevice : public testing::TestWithParam<std::string> {
 protected:
  static std::shared_ptr<Device> make() {
    return GetParam() == "cpu" ? make_cpu_device() : make_cuda_device(0);
  }
  std::vector<int> read(const Array<int>& array) {
    std::vector<int> values(array.size());
    transfer.to_host(values.data(), array.data(), values.size() * sizeof(int));
    return values;
  }

  std::vector<char> dirty_;
  std::shared_ptr<Device> device = make();
  std::unique_ptr<Stream> stream = device->make_stream();
  Transfer transfer{*device, *stream};
};

std::vector<std::string> devices() {
  std::vector<std::string> all{"cpu"};
  if (cuda_device_count() > 0) all.emplace_back("cuda");
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, EveryDevice, testing::ValuesIn(devices()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryDevice, DescriptionAndCapabilitiesNameTheKind) {
  EXPECT_THAT(device->describe(), StartsWith(GetParam() + ": "));
  EXPECT_EQ(device->runs_cuda(), GetParam() == "cuda");
  EXPECT_EQ(device->host_visible_memory(), GetParam() == "cpu");
  EXPECT_EQ(device->asynchronous(), GetParam() == "cuda");
}

TEST_P(EveryDevice, ReusedMemoryIsZeroed) {
  for (const size_t size : {1, 1000, 700000}) {
    for (int round = 0; round < 3; ++round) {
      const Array<int> array(*device, size, "numbers");
      EXPECT_EQ(read(array), std::vector<int>(size, 0));
      const std::vector<int> ones(size, 1);
      transfer.to_device(array.data(), ones.data(), size * sizeof(int));
    }
  }
}

TEST_P(EveryDevice, MemoryAroundAHugePageIsZeroed) {
  constexpr size_t kHugePage = size_t{2} << 20;
  for (const size_t bytes : {kHugePage - 1, kHugePage, kHugePage + 1}) {
    for (int round = 0; round < 3; ++round) {
      // Leaves the heap with memory that is not zero.
      std::vector<char>(2 * kHugePage, 'x').swap(dirty_);
      dirty_ = {};
      const HostArray<char> array(*device, bytes, "page");
      EXPECT_EQ(std::count(array.data(), array.data() + bytes, 0), static_cast<int64_t>(bytes));
      std::memset(const_cast<char*>(array.data()), 'y', bytes);
    }
    EXPECT_EQ(device->bytes_in_use(), 0u);
  }
}

TEST_P(EveryDevice, MemoryIsCopiedBothWays) {
  HostArray<int> from(*device, 1000, "from"), to(*device, 1000, "to");
  const Array<int> between(*device, 1000, "between");
  std::iota(from.data(), from.data() + 1000, 7);
  device->copy(between.data(), from.data(), 4000, *stream);
  device->copy(to.data(), between.data(), 4000, *stream);
  stream->synchronize();
  EXPECT_EQ(std::memcmp(from.data(), to.data(), 4000), 0);
}

TEST_P(EveryDevice, BytesInUseAndTheirPeakAreCounted) {
  const size_t before = device->bytes_in_use();
  {
    const Buffer a(*device, 1 << 20, "first"), b(*device, 3 << 20, "second");
    EXPECT_EQ(device->bytes_in_use(), before + (4 << 20));
  }
  const Buffer c(*device, 1 << 20, "third");
  EXPECT_EQ(device->bytes_in_use(), before + (1 << 20));
  EXPECT_GE(device->peak_bytes(), before + (4 << 20));
}

TEST_P(EveryDevice, BuffersThatAreSwappedAndMovedAreFreedOnce) {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHost}) {
    Buffer own(*device, 8, "own", kind), other(*device, 16, "other"), none;
    own.swap(other);
    EXPECT_EQ(own.bytes(), 16u);
    EXPECT_EQ(other.bytes(), 8u);
    const void* const memory = own.data();
    none = std::move(own);
    EXPECT_EQ(none.data(), memory);
    EXPECT_EQ(own.data(), nullptr);  // NOLINT: moved from
    const Buffer moved(std::move(none));
    EXPECT_EQ(moved.bytes(), 16u);
  }
  EXPECT_EQ(device->bytes_in_use(), 0u);
}

TEST_P(EveryDevice, AnArrayThatGrowsIsFreedBeforeItsNewMemoryIsAllocated) {
  Array<int> array(*device, 1 << 18, "growing");
  const int* const memory = array.data();
  array.reserve(1 << 18);
  EXPECT_EQ(array.data(), memory);
  array.reserve(1 << 19);
  EXPECT_GE(array.size(), size_t{1} << 19);
  EXPECT_EQ(device->peak_bytes(), array.size() * sizeof(int));
}

TEST_P(EveryDevice, OutOfMemoryNamesTheHoldersOfMemory) {
  const Buffer tables(*device, 3 << 20, "tables"), activations(*device, 1 << 20, "activations");
  const std::string error =
      run_error_of([&] { const Buffer all(*device, size_t{1} << 60, "everything"); });
  EXPECT_THAT(error, HasSubstr("1073741824.00 GiB for everything"));
  EXPECT_THAT(error, HasSubstr("tables 3.0 MiB, activations 1.0 MiB"));
  const Buffer fits(*device, 1 << 20, "something after");
}

TEST_P(EveryDevice, AStreamWaitsForAnotherThroughAnEvent) {
  const auto other = device->make_stream();
  const auto event = device->make_event();
  HostArray<int> from(*device, 1, "from"), to(*device, 1, "to");
  const Array<int> first(*device, 1, "first"), second(*device, 1, "second");
  from[0] = 42;
  device->copy(first.data(), from.data(), 4, *stream);
  device->copy(second.data(), first.data(), 4, *stream);
  stream->record(*event);
  other->wait(*event);
  device->copy(to.data(), second.data(), 4, *other);
  other->synchronize();
  EXPECT_EQ(to[0], 42);
}

TEST_P(EveryDevice, TheHostWaitsForAnEvent) {
  const auto event = device->make_event();
  HostArray<int> from(*device, 1, "from"), to(*device, 1, "to");
  const Array<int> between(*device, 1, "between");
  from[0] = 42;
  device->copy(between.data(), from.data(), 4, *stream);
  device->copy(to.data(), between.data(), 4, *stream);
  stream->record(*event);
  event->synchronize();
  EXPECT_TRUE(event->reached());
  EXPECT_EQ(to[0], 42);
}

TEST_P(EveryDevice, FreedMemoryIsReusedOnlyAfterItsReadersAreDone) {
  constexpr size_t kSize = 100000;
  HostArray<int> from(*device, kSize, "from"), to(*device, kSize, "to");
  std::iota(from.data(), from.data() + kSize, 1);
  {
    const Array<int> freed(*device, kSize, "freed");
    device->copy(freed.data(), from.data(), kSize * 4, *stream);
    device->copy(to.data(), freed.data(), kSize * 4, *stream);
  }
  const Array<int> next(*device, kSize, "next");  // zeroed
  stream->synchronize();
  EXPECT_EQ(std::memcmp(from.data(), to.data(), kSize * 4), 0);
  EXPECT_EQ(read(next), std::vector<int>(kSize, 0));
}

TEST_P(EveryDevice, AStagingBufferIsRefilledWhileEarlierContentIsInUse) {
  constexpr size_t kRounds = 30;
  const std::unique_ptr<Stream> copies = device->make_stream();
  StagingBuffer staging(*device, "staging");
  std::vector<HostArray<int>> shown;
  for (size_t round = 0; round < kRounds; ++round) {
    // It grows now and then.
    const size_t count = 500 + 100 * (round / 10);
    staging.begin(StagingBuffer::bytes_of<int>(count));
    int* values = staging.take<int>(count);
    std::fill_n(values, count, static_cast<int>(round));
    staging.send(*copies);
    staging.await(*stream);
    shown.emplace_back(*device, count, "shown");
    device->copy(shown.back().data(), staging.on_device(values), count * sizeof(int), *stream);
    staging.release(*stream);
    if (device->host_visible_memory()) stream->synchronize();
  }
  stream->synchronize();
  for (size_t round = 0; round < kRounds; ++round) {
    const HostArray<int>& s = shown[round];
    EXPECT_EQ(std::count(s.data(), s.data() + s.size(), static_cast<int>(round)),
              static_cast<int64_t>(s.size()));
  }
}

TEST_P(EveryDevice, ThreadsShareADevice) {
  std::vector<std::thread> threads;
  std::vector<int> sums(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto own = device->make_stream();
      for (int round = 0; round < 20; ++round) {
        HostArray<int> host(*device, 100, "host");
        const Array<int> array(*device, 100, "array");
        std::fill_n(host.data(), 100, t);
        device->copy(array.data(), host.data(), 400, *own);
        own->synchronize();
        std::fill_n(host.data(), 100, -1);
        device->copy(host.data(), array.data(), 400, *own);
        own->synchronize();
        sums[static_cast<size_t>(t)] += std::accumulate(host.data(), host.data() + 100, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(sums[static_cast<size_t>(t)], 2000 * t);
}

TEST_P(EveryDevice, SeveralDevicesShareAProcess) {
  const auto second = make();
  const Array<int> a(*device, 10, "a"), b(*second, 10, "b");
  EXPECT_EQ(read(a), std::vector<int>(10, 0));
  EXPECT_GE(second->bytes_in_use(), 40u);
}

TEST_P(EveryDevice, LargeHostMemoryIsZeroedAgain) {
  const size_t bytes = (size_t{130} << 20) + 1;  // several parts, of which the last is small
  for (int time = 0; time < 2; ++time) {
    const HostArray<char> array(*device, bytes, "large");
    for (const size_t at : {size_t{0}, bytes / 2, (bytes >> 26 << 26) - 1, bytes - 1}) {
      EXPECT_EQ(array[at], 0) << at;
      array[at] = 1;
    }
  }
}

TEST_P(EveryDevice, RowsAreCopiedWithoutTheSpaceBetweenThem) {
  // Rows that fit the chunk of 4 MiB together, one by one, and not at all.
  struct Case {
    int64_t rows, columns, stride;
  };
  constexpr int64_t kChunk = int64_t{4} << 20;
  for (const Case& c :
       {Case{5, 3, 7}, Case{1, 9, 9}, Case{3, kChunk / 4 / 2, kChunk / 4 / 2 + 5},
        Case{3, 100, kChunk / 4 + 1}, Case{2, kChunk / 4 + 3, kChunk / 4 + 9},
        Case{1, kChunk / 2 + 1, kChunk / 2 + 1}, Case{4, kChunk / 4, kChunk / 4},
        Case{5, kChunk / 10 - 10, kChunk / 10}, Case{1, 5, 9}, Case{0, 5, 5}, Case{5, 0, 5}}) {
    const auto all = static_cast<size_t>(std::max<int64_t>(1, c.rows * c.stride));
    const Array<int> array(*device, all, "rows");
    std::vector<int> rows(static_cast<size_t>(c.rows * c.columns));
    std::iota(rows.begin(), rows.end(), 1);
    transfer.write_rows(array.data(), c.stride, c.rows, c.columns, rows.data());
    std::vector<int> got(rows.size() + 1, -1);
    transfer.read_rows(array.data(), c.stride, c.rows, c.columns, got.data());
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), got.begin())) << c.rows << " " << c.columns;
    EXPECT_EQ(got.back(), -1);
    const std::vector<int> stored = read(array);
    for (int64_t r = 0; r < c.rows; ++r) {
      for (const int64_t k : {int64_t{0}, c.columns - 1, c.columns, c.stride - 1}) {
        if (c.columns == 0 || k >= c.stride) continue;
        const int expected = k < c.columns ? rows[static_cast<size_t>(r * c.columns + k)] : 0;
        EXPECT_EQ(stored[static_cast<size_t>(r * c.stride + k)], expected) << r << " " << k;
      }
    }
  }
}

TEST_P(EveryDevice, TimedEventsMeasureTheWorkBetweenThem) {
  const auto first = device->make_timed_event(), second = device->make_timed_event();
  const Array<char> array(*device, 1 << 20, "array");
  HostArray<char> host(*device, 1 << 20, "host");
  stream->record(*first);
  device->copy(array.data(), host.data(), 1 << 20, *stream);
  stream->record(*second);
  stream->synchronize();
  EXPECT_GE(second->milliseconds_since(*first), 0);
  EXPECT_LE(first->milliseconds_since(*second), 0);
  EXPECT_EQ(first->milliseconds_since(*first), 0);
}

TEST_P(EveryDevice, AStagingBufferRefusesMoreThanItsBytes) {
  StagingBuffer staging(*device, "staging");
  EXPECT_EQ(StagingBuffer::bytes_of<int>(0), 0u);
  EXPECT_EQ(StagingBuffer::bytes_of<int>(16), 64u);
  EXPECT_EQ(StagingBuffer::bytes_of<int>(17), 128u);
  staging.begin(128);
  const char* first = staging.take<char>(1);
  EXPECT_EQ(reinterpret_cast<char*>(staging.take<int>(16)) - first, 64);
  EXPECT_THROW(staging.take<char>(1), std::exception);
  EXPECT_EQ(staging.on_device<int>(nullptr), nullptr);
}

TEST(CudaDevices, RefuseStreamsAndEventsOfOthers) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto gpu = make_cuda_device(0), cpu = make_cpu_device();
  const auto stream = gpu->make_stream(), other_stream = cpu->make_stream();
  const auto event = gpu->make_timed_event(), other_event = cpu->make_timed_event();
  const Array<char> memory(*gpu, 2, "test");
  stream->begin_capture();
  const std::unique_ptr<Graph> graph = stream->end_capture();
  stream->record(*event);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { stream->record(*other_event); }, [&] { stream->wait(*other_event); },
           [&] { event->milliseconds_since(*other_event); }}) {
    EXPECT_THAT(error_of(call), HasSubstr("an event of another device"));
  }
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { gpu->copy(memory.data() + 1, memory.data(), 1, *other_stream); },
           [&] { graph->launch(*other_stream); }}) {
    EXPECT_THAT(error_of(call), HasSubstr("a stream of another device"));
  }
}

TEST(CudaDevices, ABuildWithoutCudaHasNone) {
  if (!built_with_cuda()) {
    EXPECT_EQ(cuda_device_count(), 0);
  }
}

TEST(CudaDevices, AMissingGpuIsAUsageError) {
  EXPECT_THAT(usage_error_of([&] { make_cuda_device(cuda_device_count()); }),
              StartsWith("device cuda: "));
  if (cuda_device_count() == 0) return;
  for (const int index : {-1, cuda_device_count()}) {
    EXPECT_EQ(error_of([&] { make_cuda_device(index); }),
              fmt::format("device cuda: GPU {} was asked for, the driver offers {}", index,
                          cuda_device_count()));
  }
}

TEST(UtilisationProbe, ACpuHasNone) {
  EXPECT_EQ(make_utilisation_probe(*make_cpu_device()), nullptr);
}

/// Behaves like a stream of a device that has failed.
class FailedStream final : public Stream {
 public:
  void synchronize() override { throw run_error("the device has failed"); }
  void record(Event&) override {}
  void wait(Event&) override {}
};

TEST(Settle, AFailedDeviceIsNotWaitedFor) {
  FailedStream stream;
  settle(stream);
  EXPECT_THROW(stream.synchronize(), Error);
}

}  // namespace
}  // namespace dlrm
