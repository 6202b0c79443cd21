#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "bench/machine_text.h"
#include "bench/memory_check.h"
#include "error_of.h"

namespace dlrm::bench {
namespace {

/// A file with this text, removed with the object.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    const int fd = ::mkstemp(path_.data());
    EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(fd);
  }
  ~TextFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/dlrm_bench_XXXXXX";
};

TEST(Processor, IsNamedWithFamilyAndModelIfTheyAreGiven) {
  const TextFile all(
      "vendor_id\t: X\ncpu family\t: 6\nmodel name\t: Some CPU @ 2\nmodel\t\t: 143\n"
      "model name\t: Another\n");
  EXPECT_EQ(processor_name(all.path()), "Some CPU @ 2 (family 6, model 143)");
  EXPECT_EQ(processor_name(TextFile("model name : Some CPU\nmodel : 3\n").path()), "Some CPU");
  EXPECT_EQ(processor_name(TextFile("model name\t: Some CPU\ncpu family\t: 3\nmodel\t:\n").path()),
            "Some CPU");
  EXPECT_EQ(processor_name(TextFile("model without value\nmodel : 3\n").path()), "unknown");
  EXPECT_EQ(processor_name("/nowhere"), "unknown");
}

TEST(CoreTicks, AreBusyUnlessTheyAreIdleOrWaitForDevices) {
  const TextFile stat(
      "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 20 300 4000 50000 600000 7000000 80000000 9 9\n"
      "cpu1 1 0 0 2 0 0 0 0 0 0\nintr 5\ncpu2 1 1 1 1 1 1 1 1 1 1\n");
  const std::vector<CoreTicks> cores = core_ticks(stat.path());
  ASSERT_EQ(cores.size(), 2u);
  EXPECT_EQ(cores[0].busy, 87600321);
  EXPECT_EQ(cores[0].total, 87654321);
  EXPECT_EQ(cores[1].busy, 1);
  EXPECT_EQ(cores[1].total, 3);
  EXPECT_TRUE(core_ticks("/nowhere").empty());
}

TEST(CoreTicks, OfSeveralSpansAreAddedUp) {
  using Ticks = std::vector<CoreTicks>;
  Ticks sums;
  add_ticks_between({{10, 100}, {5, 50}}, {{13, 110}, {5, 60}}, sums);
  add_ticks_between({{20, 200}}, {{21, 205}, {9, 90}}, sums);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].busy, 4);
  EXPECT_EQ(sums[0].total, 15);
  EXPECT_EQ(sums[1].busy, 0);
  EXPECT_EQ(sums[1].total, 10);
  add_ticks_between({{0, 0}, {1, 1}}, {{1, 2}}, sums);
  EXPECT_EQ(sums[0].busy, 5);
  EXPECT_EQ(sums[1].total, 10);
}

TEST(Memory, OfTheProcessAndOfTheMachineIsInBytes) {
  const int64_t before = resident_bytes();
  const std::vector<char> touched(size_t{64} << 20, 1);
  EXPECT_GT(resident_bytes(), before + (int64_t{60} << 20) * touched[5]);
  std::ifstream info("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  info >> key >> kib;
  ASSERT_EQ(key, "MemTotal:");
  EXPECT_EQ(machine_memory_bytes() / 1024, kib);
}

TEST(Memory, ThatIsNotAvailableIsRefused) {
  check_memory("--size", 0x1p30, 0x1p30);
  EXPECT_EQ(usage_error_of([&] { check_memory("--size", 3 * 0x1p30, 2.5 * 0x1p30); }),
            "--size would take 3.0 GiB of memory; 2.5 GiB are available here");
}

}  // namespace
}  // namespace dlrm::bench
