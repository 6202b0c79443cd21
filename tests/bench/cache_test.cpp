#include "bench/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

#include "bench/machine_text.h"

namespace dlrm::bench {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Shares, AreParsedAsRangesAndLists) {
  EXPECT_THAT(parse_shares("1..4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(parse_shares("98..100"), ElementsAre(98, 99, 100));
  EXPECT_THAT(parse_shares("10,75,0.5,100"), ElementsAre(10, 75, 0.5, 100));
}

TEST(Shares, OfOtherFormsAreRefused) {
  for (const char* text : {"", "0", "-1", "100.1", "101", "x", "5x", "nan", "1e400", "99..101"}) {
    try {
      parse_shares(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(std::string("--shares ") + text + ": must be 1..10"));
    }
  }
}

/// Every figure has a value of its own.
CacheResult result() {
  CacheResult r;
  r.threads = 3;
  r.chain = "host over SSD";
  r.table_bytes = 6 * 0x1p30;
  r.ssd = {4096, 8192, 1.5e-6, 0.25e-6};
  r.accesses = {300, 1000, {0.001, 1}, {0.25, 1}};
  CachePoint resident;
  resident.fast_bytes = 6 * 0x1p30;
  resident.speed = resident.resident = {10, 640, 2, 1.5};
  CachePoint cached;
  cached.policy = "lru16";
  cached.share = 12.5;
  cached.fast_bytes = 0.75 * 0x1p30;
  cached.speed = {8, 512, 4, 3.5};
  cached.resident = {16, 1024, 5, 2.5};
  cached.limit = 0.75;
  cached.cpu_limit = 0.5;
  cached.cache.accesses = 9000;
  cached.cache.rows = 400;
  cached.cache.misses = 100;
  cached.cache.middle_reads = 7;
  cached.cache.reads = 80;
  cached.cache.fetched_bytes = 12345;
  cached.cache.written_bytes = 6789;
  cached.cache.place_seconds = 1;
  cached.cache.fetch_seconds = 3;
  cached.cache.write_seconds = 2;
  cached.cache.exposed_seconds = 0.5;
  r.points = {resident, cached};
  return r;
}

CacheOptions options() {
  CacheOptions o;
  o.config_path = "some.yaml";
  o.config.routing.depth = 4;
  return o;
}

TEST(CacheReport, HasEveryField) {
  CacheOptions given = options();
  const json all = json::parse(to_json(given, result()));
  EXPECT_EQ(all["config"], "some.yaml");
  EXPECT_EQ(all["processor"], processor_name());
  EXPECT_EQ(all["threads"], 3);
  EXPECT_EQ(all["chain"], "host over SSD");
  EXPECT_EQ(all["part"], "tables");
  EXPECT_EQ(all["window"], given.config.batches_ahead() + 1);
  EXPECT_EQ(all["table_bytes"], 6 * 0x1p30);
  EXPECT_EQ(all["ssd"], json::parse(R"({"rows_read_per_second": 4096.0, "cpu_us_per_row_read": 1.5,
      "rows_written_per_second": 8192.0, "cpu_us_per_row_written": 0.25})"));
  EXPECT_EQ(all["accesses"], json::parse(R"({"entries": 1000, "counted": 300,
                                              "fractions": [0.001, 1.0], "shares": [0.25, 1.0]})"));
  EXPECT_EQ(all["points"].at(0)["policy"], "resident");
  EXPECT_EQ(all["points"].at(0)["share"], 100);
  EXPECT_EQ(all["points"].at(0)["ratio"], 1);
  EXPECT_EQ(all["points"].at(0)["limit"], 1);
  EXPECT_FALSE(all["points"].at(0).contains("cpu_limit"));
  EXPECT_EQ(all["points"].at(1), json::parse(R"({
      "policy": "lru16", "share": 12.5, "fast_bytes": 805306368.0, "samples_per_second": 128.0,
      "resident_samples_per_second": 204.8, "ratio": 0.625, "limit": 0.75, "cpu_limit": 0.5, "seconds": 4.0, "cpu_seconds": 3.5, "steps": 8, "hit_rate": 0.75,
      "rows_per_step": 50.0, "misses_per_step": 12.5, "reads_per_step": 10.0,
      "fetched_bytes": 12345, "written_bytes": 6789, "place_share": 0.25, "fetch_share": 0.75, "write_share": 0.5,
      "exposed_share": 0.125})"));
  given.whole_step = true;
  EXPECT_EQ(json::parse(to_json(given, result()))["part"], "step");
}

TEST(CacheTable, HasALineForEachPoint) {
  CacheOptions given = options();
  CacheResult r = result();
  const std::string table = to_table(given, r);
  EXPECT_THAT(table, HasSubstr("host over SSD, lookups and updates of tables of 6.00 GiB, 3 "
                               "threads, " +
                               processor_name() + "\n"));
  EXPECT_THAT(table, HasSubstr("hottest entries of 1000:\n      0.1000 %     25.00 %\n"
                               "    100.0000 %    100.00 %\n"));
  EXPECT_THAT(table,
              HasSubstr("\nthe SSD reads 4096 random rows a second, with 1.5 us of a core for "
                        "each, and writes 8192, with 0.25 us\n"));
  EXPECT_THAT(table,
              HasSubstr("\nresident         100      6.00   100.00         320   1.000   "
                        "1.000                   0.0      0.0      0.0      0.0      0.00\n"));
  EXPECT_THAT(table,
              HasSubstr("\nlru16           12.5      0.75    75.00         128   0.625   "
                        "0.750   0.500          12.5     25.0     75.0     50.0     12.50\n"));
  given.whole_step = true;
  r.threads = 1;
  r.ssd = {};
  EXPECT_THAT(to_table(given, r), HasSubstr(", whole steps of tables of 6.00 GiB, 1 thread, "));
  EXPECT_EQ(to_table(given, r).find("the SSD reads"), std::string::npos);
}

}  // namespace
}  // namespace dlrm::bench
