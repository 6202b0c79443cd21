#include "bench/cache.h"

#include "dlrm/config/buildable.h"
#include "dlrm/device/device.h"
#include "dlrm/plan/batch_size.h"

#include "../write_output.h"
#include "command.h"
#include "options.h"

namespace dlrm {
namespace {

struct CacheArguments {
  bench::CacheOptions options;
  std::string shares = "1..10", policies = "lookahead", part = "tables";
  std::vector<std::string> set;
  std::string output;
};

void run_cache(World& world, CacheArguments& a) {
  a.options.shares = bench::parse_shares(a.shares);
  a.options.policies = CLI::detail::split(a.policies, ',');
  a.options.whole_step = a.part == "step";
  a.set.push_back("memory.tier=cached");
  // An unknown policy is refused before anything is measured.
  for (const std::string& policy : a.options.policies) {
    std::vector<std::string> set = a.set;
    set.push_back("memory.cached.policy=" + policy);
    load_config(a.options.config_path, set);
  }
  a.options.config = load_config(a.options.config_path, a.set);
  check_buildable(a.options.config, {built_with_cuda()});
  check_batch_is_chosen(a.options.config, "dlrm-bench cache");
  const bench::CacheResult result = bench::run_cache(world.comm(), a.options);
  fmt::print("{}", bench::to_table(a.options, result));
  write_output(a.output, bench::to_json(a.options, result));
}

}  // namespace

BenchCommand cache_command(CLI::App& app) {
  const auto arguments = std::make_shared<CacheArguments>();
  CacheArguments& a = *arguments;
  CLI::App* command = app.add_subcommand(
      "cache", "Times training with cached tables by the size of the fast tier.");
  command->footer(
      "Ratios are those to training with resident tables. fetch and write are the shares of the\n"
      "time in which rows move beside the steps; exposed is the share in which steps wait for\n"
      "them. `dlrm-plot cache` draws the JSON.");
  add_config(*command, a.options.config_path);
  command->add_option("--shares", a.shares,
                      "1..10 or 10,75: percents of the tables in fast memory");
  command->add_option("--policies", a.policies, "lookahead,lru16,static: one or more (lookahead)");
  command->add_option("--part", a.part, "tables: lookups and updates alone; step: whole steps")
      ->check(CLI::IsMember({"tables", "step"}));
  add_seconds(*command, a.options.seconds, "time spent on each figure (60)");
  add_seconds(*command, a.options.warm_up, "seconds before each figure (20)", "--warm-up");
  add_set(*command, a.set);
  add_output(*command, a.output);
  return {command, [arguments](World& world) { run_cache(world, *arguments); }};
}

}  // namespace dlrm
