#include "bench/kernels.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/device/transfer.h"

namespace dlrm::bench {
namespace {

KernelSizes small_sizes() {
  KernelSizes s;
  s.batch = 24, s.tables = 2, s.rows = 50, s.hotness = 3, s.width = 8, s.features = 5;
  s.matrix = 16, s.copied = 4096, s.layer = 16, s.crossed = 40, s.rank = 8, s.parameters = 1000;
  return s;
}

/// A CPU with its operations on one thread.
struct Cpu {
  std::shared_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  std::unique_ptr<Ops> ops = make_cpu_ops(*device, *stream, 1);

  std::map<std::string, KernelRow> rows(const KernelSizes& sizes, const char* only = "") {
    KernelOptions options;
    options.sizes = sizes;
    options.seconds = 0;
    options.only = only;
    result = time_kernels(*device, *stream, *ops, options);
    std::map<std::string, KernelRow> rows;
    for (const KernelRow& row : result.rows) rows[row.name] = row;
    return rows;
  }
  KernelResult result;
};

/// The rows of small sizes, timed once for all tests.
struct SmallRows {
  Cpu cpu;
  std::map<std::string, KernelRow> rows = cpu.rows(small_sizes());
};
const SmallRows& small() {
  static const SmallRows once;
  return once;
}

TEST(KernelRows, CountTheLeastBytesThatACallMoves) {
  const auto& rows = small().rows;
  const double b = 24, w = 8, f = 5, bags = 2 * b, ids = 3 * bags;
  const double dot = w + 15, fm = w + f * w + 1, n = 40;  // columns of the results
  const std::map<std::string, double> expected = {
      {"lookup fp32, uniform ids", ids * (4 * w + 8) + bags * (4 * w + 8)},
      {"lookup fp32, zipf ids, one a bag", bags * (4 * w + 8) + bags * (4 * w + 8)},
      {"lookup bf16, zipf ids, mixed bags", 2 * (151 * (2 * w + 8) + 8 * (4 * w + 8))},
      {"dot fp32 forward", b * (4 * f * w + 4 * (w + dot))},
      {"dot fp32 backward", b * (8 * f * w + 4 * (2 * w + dot))},
      {"fm fp32 forward", b * (4 * f * w + 4 * (w + fm))},
      {"cross fp32 forward", 3 * 4 * b * n},
      {"cross fp32 input backward", 9 * 4 * b * n},
      {"average pool forward", 4 * b * (f * w + 6)},
      {"linear bf16 weight gradient, 479 to 1024", 2 * b * (479 + 1024) + 4 * 479.0 * 1024},
      {"linear bf16 forward, relu", 0},
      {"cross-entropy", 12 * b},
      {"copy blocks", 8 * b * f * w},
      {"convert fp32 to bf16", 6 * b * f * w},
      {"find non-finite fp32", 4 * b * f * w},
      {"dense sgd", 4 * 3 * 1000.0},
      {"dense adam", 4 * 7 * 1000.0},
      {"fill uniform", 4 * b * f * w}};
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(rows.count(name)) << name;
    EXPECT_EQ(rows.at(name).bytes, bytes) << name;
  }
}

TEST(KernelRows, CountTheOperationsOfProducts) {
  const auto& rows = small().rows;
  EXPECT_EQ(rows.at("linear fp32 forward, relu").flops, 2 * 24 * 16 * 16);
  EXPECT_EQ(rows.at("linear bf16 backward, relu").flops, 4 * 24 * 16 * 16);
  EXPECT_EQ(rows.at("linear bf16 weight gradient, 13 to 512").flops, 2 * 24 * 13 * 512);
  EXPECT_EQ(rows.at("linear fp32 forward, bias and a matrix added").flops, 2 * 24 * 16 * 16);
  for (const char* pass :
       {"down forward", "down input backward, added", "down weight gradient", "up forward, added",
        "up input backward", "up weight and bias gradient"}) {
    EXPECT_EQ(rows.at(std::string("cross layer bf16 ") + pass).flops, 2 * 20 * 40 * 8) << pass;
  }
  EXPECT_EQ(rows.at("dot fp32 forward").flops, 0);
}

TEST(KernelRows, OfUpdatesCountEachRowOfTheBatchOnce) {
  KernelSizes sizes = small_sizes();
  const double b = 24, bags = 2 * b, ids = 3 * bags;
  for (const int64_t most : {1, 2, 50}) {
    sizes.rows = most;
    Cpu cpu;
    const auto rows = cpu.rows(sizes, "uniform ids");
    const double unique = (rows.at("group rows, uniform ids").bytes - ids * 16) / 16;
    if (most < 50) {
      EXPECT_EQ(unique, static_cast<double>(2 * most));  // each occurs
    }
    EXPECT_LE(unique, static_cast<double>(2 * most));
    EXPECT_GT(unique, static_cast<double>(most));
    const double update = ids * (4 * 8 + 8) + unique * (4 * 4 * 8 + 16);
    EXPECT_EQ(rows.at("update adagrad, uniform ids").bytes, update);
    EXPECT_EQ(rows.at("group and update, uniform ids").bytes, update);
  }
}

TEST(KernelRows, OfOtherNamesAreLeftOut) {
  Cpu cpu;
  KernelOptions options;
  options.sizes = small_sizes();
  options.seconds = 0;
  options.only = "dot bf16";
  std::vector<std::string> names;
  for (const KernelRow& row : time_kernels(*cpu.device, *cpu.stream, *cpu.ops, options).rows) {
    names.push_back(row.name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("dot bf16 forward", "dot bf16 backward"));
  options.only = "no such operation";
  EXPECT_TRUE(time_kernels(*cpu.device, *cpu.stream, *cpu.ops, options).rows.empty());
}

TEST(KernelDevice, IsTheOneAskedForAndItsMemoryIsChecked) {
  KernelOptions options;
  options.sizes = small_sizes();
  options.sizes.variants = false;
  options.seconds = 0;
  options.only = "fill uniform";
  options.memory_bytes = 1e12;
  options.threads = 1;
  for (const char* device : {"cpu", "auto", "cuda"}) {
    const bool gpu = cuda_device_count() > 0 && std::string(device) != "cpu";
    if (!gpu && std::string(device) == "cuda") continue;
    options.device = device;
    const KernelResult result = time_kernels(options);
    EXPECT_EQ(result.device.substr(0, 4), gpu ? "cuda" : "cpu:") << device;
    EXPECT_EQ(result.rows.size(), 1u);
  }
  options.device = "cpu";
  options.memory_bytes = options.sizes.bytes();
  EXPECT_NO_THROW(time_kernels(options));
  options.memory_bytes -= 1;
  EXPECT_THROW(time_kernels(options), Error);
}

}  // namespace
}  // namespace dlrm::bench
