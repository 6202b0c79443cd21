#include <limits>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"
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
    check_world(root, world);
    const json& shards = member(root, "", "shards");
    if (!shards.is_array()) throw usage_error("{}: shards: must be a list", path_);
    for (size_t i = 0; i < shards.size(); ++i) {
      plan.shards.push_back(shard(shards[i], fmt::format("shards[{}]", i)));
    }
    plan.data_parallel = tables(root, "data_parallel");
    plan.host_replicas = tables(root, "data_parallel_host");
    if (const auto machine = root.find("machine"); machine != root.end()) {
      if (!machine->is_string()) throw usage_error("{}: machine: must be a text", path_);
      plan.machine = machine->get<std::string>();
    }
    if (root.contains("ranks_per_node")) {
      const int64_t ranks = integer(root["ranks_per_node"], "ranks_per_node");
      if (ranks < 0 || ranks > std::numeric_limits<int>::max()) {
        throw usage_error("{}: ranks_per_node: {} is no number of ranks", path_, ranks);
      }
      plan.ranks_per_node = static_cast<int>(ranks);
    }
    sort_plan(plan);
    return plan;
  }

 private:
  void check_world(const json& root, int world) const {
    if (!root.contains("world")) return;
    const int64_t planned = integer(root["world"], "world");
    if (planned == world) return;
    throw usage_error("{}: world: the plan is for {} rank{}, this run has {}", path_, planned,
                      planned == 1 ? "" : "s", world);
  }

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

  MemoryTier tier(const json& object, const std::string& prefix) const {
    const auto found = object.find("tier");
    if (found == object.end() || *found == "device") return MemoryTier::kDevice;
    if (*found == "host") return MemoryTier::kHost;
    if (*found == "cached") return MemoryTier::kCached;
    throw usage_error("{}: {}tier: must be \"host\", \"device\" or \"cached\"", path_, prefix);
  }

  Shard shard(const json& object, const std::string& place) const {
    if (!object.is_object()) throw usage_error("{}: {}: must be an object", path_, place);
    const std::string prefix = place + ".";
    Shard shard;
    shard.table = table(member(object, prefix, "table"), prefix + "table");
    shard.rows = range(member(object, prefix, "rows"), prefix + "rows");
    shard.columns = range(member(object, prefix, "columns"), prefix + "columns");
    const int64_t rank = integer(member(object, prefix, "rank"), prefix + "rank");
    if (rank < 0 || rank > std::numeric_limits<int>::max()) {
      throw usage_error("{}: {}rank: {} is no rank", path_, prefix, rank);
    }
    shard.rank = static_cast<int>(rank);
    shard.tier = tier(object, prefix);
    return shard;
  }

  const json& member(const json& object, const std::string& prefix, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) throw usage_error("{}: {}{}: missing", path_, prefix, key);
    return *found;
  }

  int table(const json& name, const std::string& place) const {
    if (!name.is_string()) throw usage_error("{}: {}: must be a table's name", path_, place);
    const auto found = index_.find(name.get<std::string>());
    if (found != index_.end()) return found->second;
    throw usage_error("{}: {}: the config has no table \"{}\"", path_, place,
                      printable(name.get<std::string>(), 200));
  }

  Range range(const json& pair, const std::string& place) const {
    if (!pair.is_array() || pair.size() != 2) {
      throw usage_error("{}: {}: must be [first, end]", path_, place);
    }
    return {integer(pair[0], place), integer(pair[1], place)};
  }

  int64_t integer(const json& value, const std::string& place) const {
    const bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() ||
         value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits) throw usage_error("{}: {}: must be an integer", path_, place);
    return value.get<int64_t>();
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
  std::string text;
  try {
    text = read_text(path, kLongestPlan);
  } catch (const Error& error) {
    throw usage_error("{}; sharding.plan must name a plan.json", error.what());
  }
  return parse_plan(text, path, model, world);
}

Plan parse_plan(const std::string& text, const std::string& name, const ModelConfig& model,
                int world) {
  const Plan plan = PlanReader(name, model).read(parse_json(name, text), world);
  check_plan(plan, model, name);
  return plan;
}

}  // namespace dlrm
