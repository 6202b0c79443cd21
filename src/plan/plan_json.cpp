#include <limits>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"
#include "dlrm/plan/plan.h"

#include "parse_json.h"
#include "shards.h"

namespace dlrm {
namespace {

using nlohmann::json;

std::string quoted(const std::string& name) {
  return json(name).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string names(const std::vector<int>& tables, const ModelConfig& model) {
  std::vector<std::string> words;
  for (const int t : tables) words.push_back(quoted(model.tables[static_cast<size_t>(t)].name));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

/// Reads the parsed file. Errors begin with the file and the place: `plan.json: shards[3].rows`.
class PlanReader {
 public:
  PlanReader(const std::string& path, const ModelConfig& model) : path_(path) {
    for (size_t t = 0; t < model.tables.size(); ++t) {
      index_.emplace(model.tables[t].name, static_cast<int>(t));
    }
  }

  Plan read(const json& root, int world) const {
    if (!root.is_object()) throw usage_error("{}: must be an object with `shards`", path_);
    Plan plan;
    plan.world = world;
    const int planned = root.contains("world") ? integer(root["world"], "world") : world;
    if (planned != world) {
      throw usage_error("{}: world: the plan is for {} rank{}, this run has {}", path_, planned,
                        planned == 1 ? "" : "s", world);
    }
    const json& shards = member(root, "", "shards");
    if (!shards.is_array()) throw usage_error("{}: shards: must be a list", path_);
    for (size_t i = 0; i < shards.size(); ++i) {
      plan.shards.push_back(shard(shards[i], fmt::format("shards[{}]", i)));
    }
    plan.data_parallel = tables(root, "data_parallel");
    plan.host_replicas = tables(root, "data_parallel_host");
    if (root.contains("machine")) plan.machine = text(root["machine"], "machine");
    if (root.contains("ranks_per_node")) {
      plan.ranks_per_node = integer(root["ranks_per_node"], "ranks_per_node");
    }
    sort_plan(plan);
    return plan;
  }

 private:
  std::vector<int> tables(const json& root, const char* key) const {
    std::vector<int> found;
    if (!root.contains(key)) return found;
    const json& list = root[key];
    if (!list.is_array()) throw usage_error("{}: {}: must be a list of table names", path_, key);
    for (size_t i = 0; i < list.size(); ++i) {
      found.push_back(table(list[i], fmt::format("{}[{}]", key, i)));
    }
    return found;
  }

  Shard shard(const json& object, const std::string& place) const {
    if (!object.is_object()) throw usage_error("{}: {}: must be an object", path_, place);
    const std::string prefix = place + ".";
    Shard shard;
    shard.table = table(member(object, prefix, "table"), prefix + "table");
    shard.rows = range(member(object, prefix, "rows"), prefix + "rows");
    shard.columns = range(member(object, prefix, "columns"), prefix + "columns");
    shard.rank = integer(member(object, prefix, "rank"), prefix + "rank");
    const json tier = object.value("tier", json("device"));
    if (tier == "host") {
      shard.tier = MemoryTier::kHost;
    } else if (tier == "cached") {
      shard.tier = MemoryTier::kCached;
    } else if (tier != "device") {
      throw usage_error("{}: {}tier: must be \"host\", \"device\" or \"cached\"", path_, prefix);
    }
    return shard;
  }

  const json& member(const json& object, const std::string& prefix, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) throw usage_error("{}: {}{}: missing", path_, prefix, key);
    return *found;
  }

  std::string text(const json& value, const std::string& place) const {
    if (!value.is_string()) throw usage_error("{}: {}: must be a text", path_, place);
    return value.get<std::string>();
  }

  int table(const json& value, const std::string& place) const {
    const std::string name = text(value, place);
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    throw usage_error("{}: {}: the config has no table \"{}\"", path_, place, printable(name, 200));
  }

  Range range(const json& pair, const std::string& place) const {
    if (!pair.is_array() || pair.size() != 2) {
      throw usage_error("{}: {}: must be [first, end]", path_, place);
    }
    return {integer<int64_t>(pair[0], place), integer<int64_t>(pair[1], place)};
  }

  /// From 0 to the largest one of the type.
  template <class Integer = int>
  Integer integer(const json& value, const std::string& place) const {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<Integer>::max());
    if (value.is_number_unsigned() && value.get<uint64_t>() <= kMost) return value.get<Integer>();
    throw usage_error("{}: {}: must be an integer from 0 to {}", path_, place, kMost);
  }

  const std::string& path_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace

std::string to_json(const Plan& plan, const ModelConfig& model) {
  std::string text = fmt::format("{{\n  \"world\": {},\n  \"shards\": [", plan.world);
  auto out = std::back_inserter(text);
  const char* separator = "\n";
  for (const Shard& shard : plan.shards) {
    fmt::format_to(
        out, "{}    {{\"table\": {}, \"rows\": [{}, {}], \"columns\": [{}, {}], \"rank\": {}{}}}",
        separator, quoted(model.tables[static_cast<size_t>(shard.table)].name), shard.rows.begin,
        shard.rows.end, shard.columns.begin, shard.columns.end, shard.rank,
        shard.tier == MemoryTier::kHost     ? ", \"tier\": \"host\""
        : shard.tier == MemoryTier::kCached ? ", \"tier\": \"cached\""
                                            : "");
    separator = ",\n";
  }
  text += plan.shards.empty() ? "],\n" : "\n  ],\n";
  text += "  \"data_parallel\": " + names(plan.data_parallel, model);
  if (!plan.host_replicas.empty()) {
    text += ",\n  \"data_parallel_host\": " + names(plan.host_replicas, model);
  }
  if (!plan.machine.empty()) text += ",\n  \"machine\": " + quoted(plan.machine);
  if (plan.ranks_per_node > 0) {
    text += fmt::format(",\n  \"ranks_per_node\": {}", plan.ranks_per_node);
  }
  return text + "\n}\n";
}

Plan read_plan(const std::string& path, const ModelConfig& model, int world) {
  constexpr size_t kLongestPlan = size_t{64} << 20;
  const std::string text = read_named(path, kLongestPlan, "sharding.plan", "plan.json");
  return parse_plan(text, path, model, world);
}

Plan parse_plan(const std::string& text, const std::string& name, const ModelConfig& model,
                int world) {
  const Plan plan = PlanReader(name, model).read(parse_json(name, text), world);
  check_plan(plan, model, name);
  return plan;
}

}  // namespace dlrm
