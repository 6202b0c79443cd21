#include "dlrm/plan/machine.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"
#include "dlrm/core/printable.h"

#include "parse_json.h"

namespace dlrm {
namespace {

using nlohmann::json;

struct Number {
  const char* key;
  double MachineSpeed::*value;
  bool required;
};
constexpr Number kNumbers[] = {
    {"memory_bytes_per_second", &MachineSpeed::memory, true},
    {"local_bytes_per_second", &MachineSpeed::local, true},
    {"network_bytes_per_second", &MachineSpeed::network, true},
    {"line_bytes", &MachineSpeed::line, false},
    {"routing_bytes_per_id", &MachineSpeed::routing_bytes_per_id, false},
    {"fp32_products_per_second", &MachineSpeed::fp32_products, false},
    {"bf16_products_per_second", &MachineSpeed::bf16_products, false},
    {"local_exchange_seconds", &MachineSpeed::local_exchange, false},
    {"network_exchange_seconds", &MachineSpeed::network_exchange, false},
    {"launch_seconds", &MachineSpeed::launch, false},
    {"shard_seconds", &MachineSpeed::shard, false},
    {"route_id_seconds", &MachineSpeed::route_id, false},
    {"receive_id_seconds", &MachineSpeed::receive_id, false},
    {"lookup_id_seconds", &MachineSpeed::lookup_id, false},
    {"update_id_seconds", &MachineSpeed::update_id, false},
    {"draw_id_seconds", &MachineSpeed::draw_id, false},
    {"processors_per_node", &MachineSpeed::processors, false},
    {"threads_per_rank", &MachineSpeed::threads, false},
    {"half_rate_size", &MachineSpeed::half_rate_size, false},
};
constexpr const char* kRanks = "ranks_per_node";
constexpr const char* kDevice = "device";

/// `sources` and `measured` are for people.
void check_keys(const json& root, const std::string& path) {
  std::vector<std::string> known{"name", kDevice, kRanks};
  for (const Number& number : kNumbers) known.emplace_back(number.key);
  for (const auto& [key, value] : root.items()) {
    if (key == "sources" || key == "measured" || std::ranges::count(known, key) > 0) continue;
    throw usage_error("{}: {}: unknown; the keys are {}, sources and measured", path,
                      printable(key, 100), fmt::join(known, ", "));
  }
}

double number_of(const json& root, const std::string& path, const char* key) {
  const json& value = root[key];
  constexpr double kMost = 1e18;
  const bool good = value.is_number() && value.get<double>() > 0 && value.get<double>() <= kMost;
  if (!good) throw usage_error("{}: {}: must be a number above 0, at most 1e18", path, key);
  return value.get<double>();
}

}  // namespace

Machine parse_machine(const std::string& text, const std::string& path) {
  const json root = parse_json(path, text);
  if (!root.is_object()) throw usage_error("{}: must be an object", path);
  check_keys(root, path);
  Machine machine;
  for (const Number& number : kNumbers) {
    if (root.contains(number.key)) {
      machine.speed.*number.value = number_of(root, path, number.key);
    } else if (number.required) {
      throw usage_error("{}: {}: missing", path, number.key);
    }
  }
  if (!root.contains(kRanks)) throw usage_error("{}: {}: missing", path, kRanks);
  constexpr double kMostRanks = 65536;
  const double ranks = number_of(root, path, kRanks);
  if (ranks != std::floor(ranks) || ranks > kMostRanks) {
    throw usage_error("{}: {}: must be a whole number from 1 to {}", path, kRanks, kMostRanks);
  }
  machine.speed.ranks_per_node = static_cast<int>(ranks);
  const auto name = root.find("name");
  if (name != root.end()) {
    if (!name->is_string()) throw usage_error("{}: name: must be a text", path);
    machine.name = printable(name->get<std::string>(), 200);
  }
  const auto device = root.find(kDevice);
  if (device != root.end()) {
    if (*device != "cpu" && *device != "cuda") {
      throw usage_error("{}: {}: must be cpu or cuda", path, kDevice);
    }
    machine.speed.gpu = *device == "cuda";
  }
  machine.hash = fmt::format("{:016x}", hash_bytes(text.data(), text.size()));
  return machine;
}

Machine read_machine(const std::string& path) {
  constexpr size_t kLongest = size_t{1} << 20;
  return parse_machine(read_named(path, kLongest, "sharding.machine", "machine file"), path);
}

}  // namespace dlrm
