// The JSON of what dlrm-bench measures. Every figure has a value of its own.
#include <limits>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/cpus.h"
#include "dlrm/plan/machine.h"

#include "bench/feeding.h"
#include "bench/infer.h"
#include "bench/machine.h"
#include "bench/machine_text.h"
#include "bench/published.h"

namespace dlrm::bench {
namespace {

using Json = nlohmann::ordered_json;

InferOptions inferred() {
  InferOptions options;
  options.batches = {1, 256};
  options.rates = {2500, std::numeric_limits<double>::infinity()};
  options.batch_wait = 90;
  options.clients = 7;
  options.seconds = 1.5;
  options.threads = 2;
  return options;
}

InferResult predictions() {
  return {"run/step_000000040",
          40,
          {{"int8",
            int64_t{3} << 19,
            {{10, 200, 0.5, 0.75}, {20, 51200, 4, 5}},
            {{30, 2400, 0.25, 0.375}, {60, 9000, 1.5, 2.5}}}}};
}

TEST(InferReport, HasEveryFigure) {
  InferOptions options = inferred();
  Json expected = Json::parse(R"({
      "checkpoint": "run/step_000000040", "step": 40, "processor": "", "threads": 2, "clients": 7,
      "batch_wait_us": 90, "seconds": 1.5,
      "models": [{"tables": "int8", "table_bytes": 1572864,
        "batches": [
          {"calls": 10, "samples_per_second": 200.0, "p50_ms": 0.5, "p99_ms": 0.75, "batch": 1},
          {"calls": 20, "samples_per_second": 51200.0, "p50_ms": 4.0, "p99_ms": 5.0,
           "batch": 256}],
        "rates": [
          {"calls": 30, "samples_per_second": 2400.0, "p50_ms": 0.25, "p99_ms": 0.375,
           "rate": 2500.0},
          {"calls": 60, "samples_per_second": 9000.0, "p50_ms": 1.5, "p99_ms": 2.5,
           "rate": "max"}]}]})");
  expected["processor"] = processor_name();
  EXPECT_EQ(Json::parse(to_json(options, predictions())), expected);
}

TEST(FeedingReport, HasEveryFigure) {
  FeedingOptions options;
  options.config_path = "some.yaml";
  options.data = "log.tsv";
  options.rows = 50;
  options.rounds = 3;
  FeedingResult result{"cpu: a device", {}};
  result.steps.push_back(
      {"text", {"data.workers=0"}, 0, {100, 400, 200}, {0.75, 0.25, 0.5}, 64, 36000});
  result.steps.push_back({"dataset", {}, 2.25, {800, 600}, {0.875, 1}, 512, 42000});
  Json expected = Json::parse(R"({
      "config": "some.yaml", "data": "log.tsv", "processor": "", "cpus": 0,
      "device": "cpu: a device", "rows": 50, "rounds": 3,
      "steps": [
        {"name": "text", "set": ["data.workers=0"], "prepare_seconds": 0.0,
         "global_batch_size": 64, "samples": 36000, "samples_per_second": 200.0,
         "busy_share": 0.5, "minutes_per_epoch": 3.0, "trials_per_day": 480.0,
         "rounds": {"samples_per_second": [100.0, 400.0, 200.0],
                    "busy_share": [0.75, 0.25, 0.5]}},
        {"name": "dataset", "set": [], "prepare_seconds": 2.25, "global_batch_size": 512,
         "samples": 42000, "samples_per_second": 700.0, "busy_share": 0.9375,
         "minutes_per_epoch": 1.0, "trials_per_day": 1440.0,
         "rounds": {"samples_per_second": [800.0, 600.0], "busy_share": [0.875, 1.0]}}]})");
  expected["processor"] = processor_name();
  expected["cpus"] = usable_cpus();
  EXPECT_EQ(Json::parse(to_json(options, result)), expected);
}

TEST(PublishedReport, HasEveryFigure) {
  PublishedTimes times;
  times.program = "P";
  times.source = "S";
  PublishedResult result;
  result.machine.name = "a machine";
  result.machine.hash = "0123456789abcdef";
  result.points = {{{"a.yaml", 8, 10, true}, 11, 7},
                   {{"a.yaml", 16, 20, false}, 15, 6},
                   {{"b.yaml", 32, 40, false}, 38, 5},
                   {{"b.yaml", 64, 80, false}, 88, 4}};
  const std::string table = to_table(times, result);
  EXPECT_NE(table.find("1 fitted points: median error 10 %, largest 10 %"), std::string::npos);
  EXPECT_NE(table.find("3 other points: median error 10 %, largest 25 %"), std::string::npos);
  result.points.resize(2);
  EXPECT_EQ(Json::parse(to_json(times, result)), Json::parse(fmt::format(
                                                     R"({{
      "predicted": true, "program": "P",
      "machine": {{"name": "a machine", "hash": "0123456789abcdef"}},
      "points": [
        {{"config": "a.yaml", "ranks": 8, "published_ms": 10.0, "predicted_ms": 11.0,
         "error": {}, "fitted": true, "dlrm_train_ms": 7.0}},
        {{"config": "a.yaml", "ranks": 16, "published_ms": 20.0, "predicted_ms": 15.0,
         "error": -0.25, "fitted": false, "dlrm_train_ms": 6.0}}]}})",
                                                     11.0 / 10 - 1)));
}

/// What a machine file has beside its sources.
Json rates_in(const std::string& text) {
  Json file = Json::parse(text);
  file.erase("sources");
  return file;
}

TEST(MachineReport, OfOneRankHasAssumptions) {
  MachineRates rates;
  rates.random_rows = 8e9;
  const MachineSpeed assumed;
  const std::string text = to_json(rates);
  Json expected{{"name", processor_name()},
                {"device", "cpu"},
                {"ranks_per_node", 1},
                {"memory_bytes_per_second", 8e9},
                {"local_bytes_per_second", 2e9},
                {"network_bytes_per_second", assumed.network},
                {"line_bytes", assumed.line},
                {"routing_bytes_per_id", assumed.routing_bytes_per_id},
                {"measured", {{"processor", processor_name()}, {"ranks", 1}, {"nodes", 1}}}};
  EXPECT_EQ(rates_in(text), expected);
  EXPECT_EQ(parse_machine(text, "m").speed.local, 2e9);
}

TEST(MachineReport, OfNodesHasAllThatWasMeasured) {
  MachineRates rates;
  rates.ranks = 6;
  rates.nodes = 2;
  rates.ranks_per_node = 3;
  rates.processors = 12;
  rates.threads = 5;
  rates.draw_id = 7e-9;
  rates.random_rows = 8e9;
  rates.fp32_products = 1e11;
  rates.bf16_products = 3e11;
  rates.local = 5e9;
  rates.network = 4e9;
  rates.local_seconds = 1e-6;
  rates.network_seconds = 2e-5;
  rates.collectives = {{"alltoall", 4096, 0.5},    {"allgather", 4096, 0.25},
                       {"allreduce", 4096, 0.125}, {"alltoall", 65536, 61440.5},
                       {"allgather", 65536, 0.2},  {"allreduce", 65536, 3.125}};
  const std::string text = to_json(rates);
  const MachineSpeed assumed;
  const auto fitted = [](double alpha, double beta, double last) {
    return Json{{"alpha_seconds", alpha},
                {"beta_seconds_per_byte", beta},
                {"seconds_by_bytes",
                 Json::array({Json::array({4096, alpha}), Json::array({65536, last})})}};
  };
  EXPECT_EQ(rates_in(text), (Json{{"name", processor_name()},
                                  {"device", "cpu"},
                                  {"ranks_per_node", 3},
                                  {"processors_per_node", 12},
                                  {"threads_per_rank", 5},
                                  {"memory_bytes_per_second", 8e9},
                                  {"local_bytes_per_second", 5e9},
                                  {"network_bytes_per_second", 4e9},
                                  {"line_bytes", assumed.line},
                                  {"routing_bytes_per_id", assumed.routing_bytes_per_id},
                                  {"fp32_products_per_second", 1e11},
                                  {"bf16_products_per_second", 3e11},
                                  {"draw_id_seconds", 7e-9},
                                  {"local_exchange_seconds", 1e-6},
                                  {"network_exchange_seconds", 2e-5},
                                  {"measured",
                                   {{"processor", processor_name()},
                                    {"ranks", 6},
                                    {"nodes", 2},
                                    {"alltoall", fitted(0.5, 1, 61440.5)},
                                    {"allgather", fitted(0.25, 0, 0.2)},
                                    {"allreduce", fitted(0.125, 3.0 / 61440, 3.125)}}}}));
  rates.bf16_products.reset();
  const Json without = Json::parse(to_json(rates));
  EXPECT_EQ(without["bf16_products_per_second"], 1e11);
}

}  // namespace
}  // namespace dlrm::bench
