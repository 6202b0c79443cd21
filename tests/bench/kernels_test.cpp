#include "bench/kernels.h"

#include <chrono>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/device/transfer.h"

#include "bench/kernels_clock.h"

namespace dlrm::bench {
namespace {

using nlohmann::json;

KernelSizes no_sizes() {
  KernelSizes s;
  s.hotness = s.width = s.features = s.layer = s.crossed = s.parameters = 0;
  return s;
}

KernelSizes small_sizes() {
  KernelSizes s;
  s.batch = 24, s.tables = 2, s.rows = 50, s.hotness = 3, s.width = 8, s.features = 5;
  s.matrix = 16, s.copied = 4096, s.layer = 16, s.crossed = 40, s.rank = 8, s.parameters = 1000;
  return s;
}

TEST(KernelSizes, TakeTheBytesOfTheirArrays) {
  KernelSizes s = no_sizes();
  EXPECT_EQ(s.bytes(), 0);
  s.tables = 2, s.rows = 10, s.width = 4;
  EXPECT_EQ(s.bytes(), 2 * 10 * 4 * 2 * 4);  // weights and one state
  s = no_sizes();
  s.batch = 3, s.tables = 2, s.hotness = 5;
  EXPECT_EQ(s.bytes(), 3 * 2 * 5 * 2 * 8);
  s = no_sizes();
  s.batch = 3, s.tables = 2, s.features = 6, s.width = 4;
  EXPECT_EQ(s.bytes(), 3 * 9 * 4 * 2 * 4 + 3 * 36 * 4);
  s = no_sizes();
  s.batch = 3, s.layer = 5, s.crossed = 7;
  EXPECT_EQ(s.bytes(), 3 * (4 * 5 + 9 * 7) * 4 + 3 * 25 * 4);
  s = no_sizes();
  s.matrix = 6, s.copied = 100, s.parameters = 10;
  EXPECT_EQ(s.bytes(), 3 * 36 * 4 + 200 + 4 * 10 * 4);
}

TEST(KernelSizes, ThatAreNotGivenFitACpu) {
  const auto device = make_cpu_device();
  KernelSizes s;
  s.fill_for(*device);
  EXPECT_EQ(s.batch, 2048);
  EXPECT_EQ(s.tables, 4);
  EXPECT_EQ(s.rows, 250000);
  EXPECT_EQ(s.matrix, 1024);
  EXPECT_EQ(s.copied, 128000000);
  KernelSizes given = small_sizes();
  given.fill_for(*device);
  EXPECT_EQ(given.batch, 24);
  EXPECT_EQ(given.tables, 2);
  EXPECT_EQ(given.rows, 50);
  EXPECT_EQ(given.matrix, 16);
  EXPECT_EQ(given.copied, 4096);
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
      {"lookup bf16, uniform ids", ids * (2 * w + 8) + bags * (4 * w + 8)},
      {"lookup fp32, zipf ids, one a bag", bags * (4 * w + 8) + bags * (4 * w + 8)},
      {"lookup fp32, zipf ids, 16 wide", ids * 72 + bags * 72},
      {"lookup bf16, zipf ids, mixed bags", 2 * (151 * (2 * w + 8) + 8 * (4 * w + 8))},
      {"dot fp32 forward", b * (4 * f * w + 4 * (w + dot))},
      {"dot bf16 forward", 2 * b * (f * w + w + dot)},
      {"dot fp32 backward", b * (8 * f * w + 4 * (2 * w + dot))},
      {"dot bf16 backward", 2 * b * (2 * f * w + 2 * w + dot)},
      {"fm fp32 forward", b * (4 * f * w + 4 * (w + fm))},
      {"fm bf16 backward", 2 * b * (2 * f * w + 2 * w + fm)},
      {"cross fp32 forward", 3 * 4 * b * n},
      {"cross fp32 backward", 3 * 4 * b * n},
      {"cross bf16 backward", 3 * 2 * b * n},
      {"cross fp32 input backward", 9 * 4 * b * n},
      {"cross bf16 input backward", 9 * 2 * b * n},
      {"average pool forward", 4 * b * (f * w + 6)},
      {"average pool backward", 4 * b * (f * w + 6)},
      {"linear bf16 weight gradient, 479 to 1024", 2 * b * (479 + 1024) + 4 * 479.0 * 1024},
      {"linear bf16 forward, relu", 0},
      {"cross-entropy", 12 * b},
      {"copy blocks", 8 * b * f * w},
      {"convert fp32 to bf16", 6 * b * f * w},
      {"find non-finite fp32", 4 * b * f * w},
      {"dense sgd", 4 * 3 * 1000.0},
      {"dense adagrad", 4 * 5 * 1000.0},
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

TEST(KernelRows, TellTheirShapes) {
  const auto& rows = small().rows;
  EXPECT_EQ(rows.at("lookup fp32, uniform ids").shape, "2 x 24 x 3 x 8");
  EXPECT_EQ(rows.at("update adagrad, zipf ids, mixed bags").shape, "8 x 2 x 1..100 x 8");
  EXPECT_EQ(rows.at("dot bf16 forward").shape, "24 x 6 x 8");
  EXPECT_EQ(rows.at("fm fp32 backward").shape, "24 x 6 x 8");
  EXPECT_EQ(rows.at("cross fp32 forward").shape, "24 x 40");
  EXPECT_EQ(rows.at("cross bf16 input backward").shape, "3 x 24 x 40");
  EXPECT_EQ(rows.at("average pool forward").shape, "24 x 40 / 7");
  EXPECT_EQ(rows.at("linear fp32 forward, relu").shape, "24 x 16 x 16");
  EXPECT_EQ(rows.at("cross layer bf16 up forward, added").shape, "20 x 8 x 40");
  EXPECT_EQ(rows.at("linear bf16 weight gradient, 13 to 512").shape, "512 x 13 x 24");
  EXPECT_EQ(rows.at("cross-entropy").shape, "24");
  EXPECT_EQ(rows.at("copy blocks").shape, "5 of 24 x 8");
  EXPECT_EQ(rows.at("convert fp32 to bf16").shape, "24 x 40");
  EXPECT_EQ(rows.at("dense adam").shape, "1000");
  EXPECT_EQ(rows.at("fill uniform").shape, "120 x 8");
}

TEST(KernelRows, HaveAShareOfTheTighterLimitAndNoGoalOnACpu) {
  for (const auto& [name, row] : small().rows) {
    const bool narrow = name.find("bf16") != std::string::npos;
    const KernelLimits& limits = small().cpu.result.limits;
    const double flops = narrow ? limits.flops_bf16 : limits.flops_fp32;
    const double least = std::max(row.bytes / limits.bytes_per_second, row.flops / flops);
    EXPECT_DOUBLE_EQ(row.share, least / row.seconds) << name;
    EXPECT_EQ(row.goal, 0) << name;
    EXPECT_GE(row.median, row.seconds) << name;
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

TEST(KernelClock, GivesTheBestGroupAndTheMedianOfThree) {
  Cpu cpu;
  KernelOptions options;
  options.seconds = 0;
  KernelClock clock(*cpu.device, *cpu.stream, *cpu.ops, options);
  // Two calls to warm up, one to choose the size of groups, and three groups of one call.
  const std::vector<int> milliseconds{1, 1, 25, 160, 30, 80};
  size_t call = 0;
  const KernelClock::Timing timing = clock.timing_of(
      [&] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds.at(call++))); });
  EXPECT_EQ(call, milliseconds.size());
  EXPECT_GE(timing.best, 0.030);
  EXPECT_GE(timing.median, 0.080);
  EXPECT_GE(timing.median, timing.best);
}

TEST(KernelClock, LaunchesAShortCallOfAGpuAsAGraph) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream();
  const auto ops = make_cuda_ops(*device, *stream, {});
  KernelOptions options;
  options.seconds = 0;
  KernelClock clock(*device, *stream, *ops, options);
  // Once to warm up, once to see that it is short, and once into the graph. On a busy machine a
  // short call may seem long. Then it is called more often.
  int calls = 0;
  for (int trial = 0; trial < 200 && calls != 3; ++trial) {
    calls = 0;
    clock.timing_of([&] { ++calls; });
  }
  EXPECT_EQ(calls, 3);
  const std::vector<int> values{5, 6, 7};
  const Array<int> filled = clock.filled(values, "numbers");
  std::vector<int> got(3);
  Transfer(*device, *stream).to_host(got.data(), filled.data(), 12);
  EXPECT_EQ(got, values);
}

TEST(KernelSizes, ThatAreNotGivenFillAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  KernelSizes s;
  s.fill_for(*make_cuda_device(0));
  EXPECT_EQ(s.batch, 65536);
  EXPECT_EQ(s.tables, 8);
  EXPECT_EQ(s.rows, 4000000);
  EXPECT_EQ(s.matrix, 8192);
  EXPECT_EQ(s.copied, 2000000000);
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

TEST(KernelRows, OfAGpuHaveGoalsAndTheLinkToItsHost) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream();
  const auto ops = make_cuda_ops(*device, *stream, {});
  KernelOptions options;
  options.sizes = small_sizes();
  options.sizes.variants = false;
  options.seconds = 0;
  const auto goals_of = [&](const char* only) {
    options.only = only;
    std::map<std::string, double> goals;
    for (const KernelRow& row : time_kernels(*device, *stream, *ops, options).rows) {
      goals[row.name] = row.goal;
      if (std::string(only) == "host") {
        EXPECT_EQ(row.bytes, 4096);
        EXPECT_EQ(row.shape, "4096");
      }
    }
    return goals;
  };
  using Goals = std::map<std::string, double>;
  EXPECT_EQ(goals_of("host"), (Goals{{"copy from host", 0}, {"copy to host", 0}}));
  EXPECT_EQ(goals_of("dot "), (Goals{{"dot bf16 forward", 0.7},
                                     {"dot bf16 backward", 0.7},
                                     {"dot fp32 forward", 0},
                                     {"dot fp32 backward", 0}}));
  EXPECT_EQ(goals_of("uniform ids"), (Goals{{"lookup fp32, uniform ids", 0.8},
                                            {"lookup bf16, uniform ids", 0},
                                            {"group rows, uniform ids", 0},
                                            {"update adagrad, uniform ids", 0.7},
                                            {"group and update, uniform ids", 0}}));
}

TEST(KernelRows, OfOneNameNeedNoOther) {
  Cpu cpu;
  KernelOptions options;
  options.sizes = small_sizes();
  options.sizes.variants = false;
  options.seconds = 0;
  for (const char* name :
       {"linear bf16 backward, relu", "linear fp32 forward, relu", "fm fp32 forward",
        "fm bf16 backward", "cross fp32 forward", "cross bf16 backward",
        "cross bf16 input backward", "average pool backward", "average pool forward",
        "convert fp32 to bf16", "find non-finite fp32", "dot fp32 backward",
        "lookup bf16, zipf ids", "update adagrad, zipf ids", "group rows, uniform ids",
        "group and update, zipf ids", "linear bf16 weight gradient, 13 to 512"}) {
    options.only = name;
    const auto rows = time_kernels(*cpu.device, *cpu.stream, *cpu.ops, options).rows;
    ASSERT_EQ(rows.size(), 1u) << name;
    EXPECT_EQ(rows[0].name, name);
  }
}

TEST(KernelRows, OfAGpuTimeReluMasksAsTrainingUsesThem) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream();
  const auto ops = make_cuda_ops(*device, *stream, {});
  KernelOptions options;
  options.sizes = small_sizes();
  options.sizes.variants = false;
  options.seconds = 0;
  options.only = "mask";
  const auto rows = time_kernels(*device, *stream, *ops, options).rows;
  std::vector<std::string> names;
  for (const KernelRow& row : rows) {
    names.push_back(row.name);
    EXPECT_EQ(row.flops, 2 * 24 * 16 * 16) << row.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("linear bf16 forward, relu and its mask",
                                            "linear bf16 input backward through a relu mask",
                                            "linear fp32 forward, relu and its mask",
                                            "linear fp32 input backward through a relu mask"));
}

TEST(KernelLines, AreReportedAsSoonAsTheyAreKnown) {
  Cpu cpu;
  KernelOptions options;
  options.sizes = small_sizes();
  options.seconds = 0;
  options.only = "dot bf16";
  std::vector<json> lines;
  options.measured = [&](const KernelLine& line) {
    lines.push_back(json::parse(line.json));
    if (lines.size() == 3) throw run_error("a crash");
  };
  EXPECT_THROW(time_kernels(*cpu.device, *cpu.stream, *cpu.ops, options), Error);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["sizes"]["batch"], 24);
  EXPECT_EQ(lines[1]["limit"], "copy");
  EXPECT_EQ(lines[2]["name"], "dot bf16 forward");
}

TEST(KernelLines, HaveEveryField) {
  KernelOptions options;
  options.sizes = small_sizes();
  const json head =
      json::parse(head_line(options, {.device = "cpu: some", .execution = "cpu avx2"}).json);
  EXPECT_EQ(head["device"], "cpu: some");
  EXPECT_EQ(head["execution"], "cpu avx2");
  EXPECT_EQ(
      head["sizes"],
      json::parse(R"({"batch": 24, "tables": 2, "rows": 50, "hotness": 3, "width": 8, "features": 5,
                                          "matrix": 16, "copied": 4096, "layer": 16, "crossed": 40,
                                          "rank": 8, "parameters": 1000})"));
  const json copied = json::parse(limit_line("copy", 20e9, true).json);
  EXPECT_DOUBLE_EQ(copied["gb_per_second"].get<double>(), 20);
  const json product = json::parse(limit_line("product bf16", 400e9, false).json);
  EXPECT_EQ(product["limit"], "product bf16");
  EXPECT_DOUBLE_EQ(product["gflops"].get<double>(), 400);
  KernelRow row{.name = "dot", .shape = "2 x 3"};
  row.seconds = 0.002, row.median = 0.004, row.bytes = 8e6, row.flops = 6e8, row.share = 0.5;
  const json dot = json::parse(row_line(row).json);
  row.name = "copy", row.flops = 0, row.goal = 0.75, row.note = "refused";
  const json copy = json::parse(row_line(row).json);
  EXPECT_EQ(dot["name"], "dot");
  EXPECT_EQ(dot["shape"], "2 x 3");
  EXPECT_EQ(dot["milliseconds"], 2);
  EXPECT_EQ(dot["median_milliseconds"], 4);
  EXPECT_EQ(dot["bytes"], 8e6);
  EXPECT_DOUBLE_EQ(dot["gb_per_second"].get<double>(), 4);
  EXPECT_DOUBLE_EQ(dot["gflops"].get<double>(), 300);
  EXPECT_EQ(dot["share"], 0.5);
  EXPECT_FALSE(dot.contains("goal"));
  EXPECT_FALSE(dot.contains("note"));
  EXPECT_EQ(copy["note"], "refused");
  EXPECT_FALSE(copy.contains("gflops"));
  EXPECT_EQ(copy["goal"], 0.75);
}

}  // namespace
}  // namespace dlrm::bench
