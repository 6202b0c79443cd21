// Copies between memory of a device and of the host, in pieces that fit a chunk.
#include "dlrm/device/transfer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace dlrm {
namespace {

constexpr int64_t kChunk = int64_t{4} << 20;                  // bytes
constexpr int64_t kFits = kChunk / int64_t{sizeof(int64_t)};  // elements

class LateStream final : public Stream {
 public:
  void synchronize() override {
    for (const auto& copy : copies_) copy();
    copies_.clear();
  }
  void record(Event&) override {}
  void wait(Event&) override {}
  void add(std::function<void()> copy) { copies_.push_back(std::move(copy)); }

 private:
  std::vector<std::function<void()>> copies_;
};

/// A CPU that does its copies once the host waits for their stream.
class LateDevice final : public Device {
 public:
  explicit LateDevice(bool visible) : Device({.host_visible_memory = visible}) {}
  void* allocate(size_t bytes, const char* what) override { return inner_->allocate(bytes, what); }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    inner_->deallocate(pointer, bytes);
  }
  void* allocate_host(size_t bytes, const char* what) override {
    host_bytes += static_cast<int64_t>(bytes);
    return inner_->allocate_host(bytes, what);
  }
  void deallocate_host(void* pointer, size_t bytes) noexcept override {
    inner_->deallocate_host(pointer, bytes);
  }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    ++copies;
    static_cast<LateStream&>(stream).add([=] { std::memcpy(to, from, bytes); });
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<LateStream>(); }
  std::unique_ptr<Event> make_event() override { return nullptr; }
  std::string describe() const override { return "late"; }
  size_t bytes_in_use() const override { return 0; }
  size_t peak_bytes() const override { return 0; }

  int copies = 0;
  int64_t host_bytes = 0;  ///< allocated so far

 private:
  const std::shared_ptr<Device> inner_ = make_cpu_device();
};

struct Shape {
  int64_t rows, columns, stride;

  int64_t span() const { return rows > 0 && columns > 0 ? (rows - 1) * stride + columns : 0; }
};

int64_t value_at(int64_t i) {
  return static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u | 1);
}

/// Values all of which differ from 0.
std::vector<int64_t> values(int64_t count, int64_t first) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = value_at(first + i);
  return all;
}

void copy_rows(const int64_t* from, int64_t from_stride, const Shape& s, int64_t* to,
               int64_t to_stride) {
  for (int64_t r = 0; r < s.rows; ++r) {
    std::copy_n(from + r * from_stride, s.columns, to + r * to_stride);
  }
}

/// Reads and writes rows. The elements on either side must stay as they are, and those between the
/// rows must be zero after the write as before it.
void check_rows(const Shape& s, bool visible) {
  SCOPED_TRACE(fmt::format("{} rows of {} elements, {} apart, {}", s.rows, s.columns, s.stride,
                           visible ? "visible" : "hidden"));
  constexpr int64_t kAround = 9;
  LateDevice device(visible);
  const std::unique_ptr<Stream> stream = device.make_stream();
  Transfer transfer(device, *stream);
  const Array<int64_t> memory(device, static_cast<size_t>(s.span() + 2 * kAround), "rows");
  int64_t* const rows = memory.data() + kAround;

  const std::vector<int64_t> held = values(s.span() + 2 * kAround, 1);
  std::copy(held.begin(), held.end(), memory.data());
  std::vector<int64_t> read(static_cast<size_t>(s.rows * s.columns + 2 * kAround), -1);
  std::vector<int64_t> expected = read;
  copy_rows(held.data() + kAround, s.stride, s, expected.data() + kAround, s.columns);
  transfer.read_rows(rows, s.stride, s.rows, s.columns, read.data() + kAround);
  EXPECT_TRUE(read == expected);
  EXPECT_TRUE(std::equal(held.begin(), held.end(), memory.data())) << "a read changes the device";

  std::fill_n(rows, s.span(), 0);
  expected.assign(memory.data(), memory.data() + memory.size());
  const std::vector<int64_t> written = values(s.rows * s.columns, s.span() + 100);
  copy_rows(written.data(), s.columns, s, expected.data() + kAround, s.stride);
  transfer.write_rows(rows, s.stride, s.rows, s.columns, written.data());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), memory.data()));

  EXPECT_LE(device.copies, visible ? 0 : 2 * (s.span() * 8 / kChunk + 2));
  EXPECT_LE(device.host_bytes, visible ? 0 : kChunk);
}

TEST(Transfers, OfRowsTakeAChunkOfHostMemoryAndFewCopies) {
  const std::vector<Shape> shapes{
      {0, 3, 4},
      {3, 0, 4},
      {1, 5, 9},
      {3, 5, 5},
      {3, 5, 8},
      {5, 199990, 200000},  // the last piece has fewer rows
      {4, 199990, 200000},
      {2, kFits - 2, kFits},
      {2, kFits - 2, kFits + 1},  // parts of one row
      {2, kFits + 3, kFits + 5},
      {1, 2 * kFits, 1},
      {1, 2 * kFits + 1, 1},
  };
  for (const bool visible : {false, true}) {
    for (const Shape& shape : shapes) check_rows(shape, visible);
  }
}

TEST(Transfers, OfBytesTakeAChunkOfHostMemoryAndFewCopies) {
  for (const int64_t bytes : {int64_t{0}, int64_t{5}, kChunk, kChunk + 1}) {
    SCOPED_TRACE(bytes);
    LateDevice device(false);
    const std::unique_ptr<Stream> stream = device.make_stream();
    Transfer transfer(device, *stream);
    const std::vector<int64_t> drawn = values(bytes / 8 + 1, 1);
    const auto n = static_cast<size_t>(bytes);
    const Array<char> memory(device, n + 1, "bytes");
    memory[n] = 'x';
    transfer.to_device(memory.data(), drawn.data(), n);
    EXPECT_EQ(std::memcmp(memory.data(), drawn.data(), n), 0);
    EXPECT_EQ(memory[n], 'x');
    std::vector<char> back(n + 1, 'y');
    transfer.to_host(back.data(), memory.data(), n);
    EXPECT_EQ(std::memcmp(back.data(), drawn.data(), n), 0);
    EXPECT_EQ(back[n], 'y');
    EXPECT_LE(device.copies, 2 * (bytes / kChunk + 1));
    EXPECT_LE(device.host_bytes, kChunk);
  }
}

}  // namespace
}  // namespace dlrm
