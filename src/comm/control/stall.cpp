#include "stall.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dlrm::comm {
namespace {

using Comm = RankReport::Comm;

/// Returns communicator `id` of a rank; null if the rank has none or never sent a report.
const Comm* comm_of(const PeerReport& rank, int32_t id) {
  const Comm* found = nullptr;
  if (!rank.received) return found;
  rank.each_comm([&](const Comm& comm) {
    if (comm.id == id) found = &comm;
  });
  return found;
}

const RankReport::CallEntry& call(const Comm& comm, uint64_t number) {
  return comm.calls[number % CallLog::kKept];
}

std::string names_of(const std::vector<int>& numbers) {
  return fmt::format("{} {}", numbers.size() == 1 ? "rank" : "ranks", fmt::join(numbers, ", "));
}

std::string host_of(const PeerReport& rank) { return rank.received ? rank.report.host : ""; }

/// True if the job has ranks on several hosts. Otherwise hosts are not worth naming.
bool has_several_hosts(const std::vector<PeerReport>& ranks) {
  std::string first;
  for (const PeerReport& rank : ranks) {
    const std::string host = host_of(rank);
    if (first.empty()) first = host;
    if (!host.empty() && host != first) return true;
  }
  return false;
}

/// "rank 5 on node2", or "rank 5" if all ranks are on one host.
std::string names_of(const std::vector<int>& numbers, const std::vector<PeerReport>& ranks) {
  std::vector<std::string> hosts;
  for (const int rank : numbers) {
    const std::string host = host_of(ranks[static_cast<size_t>(rank)]);
    const bool known = std::find(hosts.begin(), hosts.end(), host) != hosts.end();
    if (!host.empty() && !known) hosts.push_back(host);
  }
  if (hosts.empty() || !has_several_hosts(ranks)) return names_of(numbers);
  return fmt::format("{} on {}", names_of(numbers), fmt::join(hosts, ", "));
}

/// A call of one communicator in which the ranks differ.
struct Difference {
  int32_t comm = 0;
  uint64_t number = 0;
  std::string name;
  std::vector<int> missing;                          ///< ranks that have not entered the call
  std::vector<std::pair<std::string, int>> by_name;  ///< (name, rank) if names differ
};

Difference compare(const std::vector<PeerReport>& ranks, int32_t id) {
  Difference difference;
  difference.comm = id;
  uint64_t lowest = UINT64_MAX, highest = 0;
  for (const PeerReport& rank : ranks) {
    const Comm* comm = comm_of(rank, id);
    const uint64_t entered = comm ? comm->entered : 0;
    lowest = std::min(lowest, entered);
    highest = std::max(highest, entered);
  }
  difference.number = lowest == highest ? highest : lowest + 1;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Comm* comm = comm_of(ranks[r], id);
    if (!comm || comm->entered < difference.number) {
      difference.missing.push_back(static_cast<int>(r));
    } else if (comm->entered - difference.number < CallLog::kKept && comm->entered > 0) {
      difference.by_name.emplace_back(call(*comm, difference.number).name, static_cast<int>(r));
    }
  }
  std::stable_sort(difference.by_name.begin(), difference.by_name.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (!difference.by_name.empty()) difference.name = difference.by_name.front().first;
  const bool same = std::all_of(difference.by_name.begin(), difference.by_name.end(),
                                [&](const auto& e) { return e.first == difference.name; });
  if (same) difference.by_name.clear();
  return difference;
}

std::vector<Difference> differences(const std::vector<PeerReport>& ranks) {
  std::vector<int32_t> ids;
  for (const PeerReport& rank : ranks) {
    rank.each_comm([&](const Comm& comm) { ids.push_back(comm.id); });
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<Difference> found;
  for (const int32_t id : ids) {
    Difference difference = compare(ranks, id);
    if (!difference.missing.empty() || !difference.by_name.empty()) {
      found.push_back(std::move(difference));
    }
  }
  return found;
}

std::string last_call(const PeerReport& rank) {
  const Comm* latest = nullptr;
  rank.each_comm([&](const Comm& comm) {
    if (comm.entered > 0 && (!latest || comm.entered > latest->entered)) latest = &comm;
  });
  if (!latest) return "none";
  const auto& entry = call(*latest, latest->entered);
  return fmt::format("{} #{} ({} bytes)", entry.name, latest->entered, entry.bytes);
}

std::string describe(const Difference& d) {
  std::string line = fmt::format("  communicator {}, call #{}:", d.comm, d.number);
  if (!d.missing.empty()) {
    fmt::format_to(std::back_inserter(line), " {} not entered by {};",
                   d.name.empty() ? "a call" : d.name, names_of(d.missing));
  }
  for (const auto& [name, rank] : d.by_name) {
    fmt::format_to(std::back_inserter(line), " rank {} entered {};", rank, name);
  }
  line.back() = '\n';
  return line;
}

std::string table_of(const std::vector<PeerReport>& ranks, const std::vector<Difference>& found,
                     double timeout) {
  std::string table = fmt::format("watchdog: no progress for {:g} s\n", timeout);
  auto out = std::back_inserter(table);
  const bool names_hosts = has_several_hosts(ranks);
  const auto host = [&](const std::string& name) {
    return names_hosts ? fmt::format("{:<16}  ", name) : "";
  };
  fmt::format_to(out, "  {:>4}  {}{:>10}  {:>9}  {:<12}  {}\n", "rank", host("host"), "last heard",
                 "idle", "stage", "last call");
  for (size_t r = 0; r < ranks.size(); ++r) {
    const PeerReport& rank = ranks[r];
    if (!rank.received) {
      fmt::format_to(out, "  {:>4}  {}{:>10}\n", r, host(""), "never");
      continue;
    }
    fmt::format_to(out, "  {:>4}  {}{:>8.1f} s  {:>7.1f} s  {:<12}  {}\n", r,
                   host(rank.report.host), rank.seconds_ago,
                   rank.report.idle_seconds + rank.seconds_ago, rank.report.stage, last_call(rank));
  }
  for (const Difference& difference : found) table += describe(difference);
  return table;
}

std::string error_of(const std::vector<PeerReport>& ranks, const std::vector<Difference>& found,
                     double timeout) {
  std::vector<int> silent;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].seconds_ago >= timeout) silent.push_back(static_cast<int>(r));
  }
  if (!silent.empty()) {
    const PeerReport& first = ranks[static_cast<size_t>(silent.front())];
    return fmt::format("{} no longer answer{}: last heard {:.0f} s ago in stage {}",
                       names_of(silent, ranks), silent.size() == 1 ? "s" : "", first.seconds_ago,
                       first.received ? first.report.stage : "start");
  }
  for (const Difference& d : found) {
    if (d.missing.empty()) continue;
    const auto& first = ranks[static_cast<size_t>(d.missing.front())].report;
    return fmt::format("{} made no progress for {:g} s: not in {} #{} where others wait, stage {}",
                       names_of(d.missing, ranks), timeout, d.name, d.number, first.stage);
  }
  for (const Difference& d : found) {
    return fmt::format("no progress for {:g} s: ranks made different calls: rank {} {}, rank {} {}",
                       timeout, d.by_name.front().second, d.by_name.front().first,
                       d.by_name.back().second, d.by_name.back().first);
  }
  const auto idlest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const auto& a, const auto& b) { return a.report.idle_seconds < b.report.idle_seconds; });
  const auto number = static_cast<int>(std::distance(ranks.begin(), idlest));
  return fmt::format("{} made no progress for {:g} s in stage {}", names_of({number}, ranks),
                     timeout, idlest->report.stage);
}

}  // namespace

Stall find_stall(const std::vector<PeerReport>& ranks, double timeout_seconds) {
  bool paused = false, silent = false, idle = false;
  for (const PeerReport& rank : ranks) {
    paused |= rank.received && rank.report.paused != 0;
    silent |= rank.seconds_ago >= timeout_seconds;
    idle |= rank.received && rank.report.timeout_seconds > 0 &&
            rank.report.idle_seconds + rank.seconds_ago >= timeout_seconds;
  }
  if (!silent && (!idle || paused)) return {};
  const std::vector<Difference> found = differences(ranks);
  return {true, table_of(ranks, found, timeout_seconds), error_of(ranks, found, timeout_seconds)};
}

}  // namespace dlrm::comm
