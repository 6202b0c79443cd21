#include "checks.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

namespace dlrm::preflight {
namespace {

/// Returns the first rank for which differs(its facts, those of rank 0); -1: none.
template <class Differs>
int first_other(const std::vector<Facts>& ranks, Differs differs) {
  for (size_t q = 1; q < ranks.size(); ++q) {
    if (differs(ranks[q], ranks[0])) return static_cast<int>(q);
  }
  return -1;
}

std::string place(const std::vector<Facts>& ranks, int rank) {
  return fmt::format("rank {} on {}", rank, ranks[static_cast<size_t>(rank)].node);
}

bool is_different(const char* a, const char* b) { return std::string(a) != b; }

std::string cuda(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

}  // namespace

bool any_gpu(const std::vector<Facts>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const Facts& f) { return f.gpus > 0; });
}

bool own_gpus(const std::vector<Facts>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const Facts& f) { return f.gpus >= f.local_size; });
}

Finding check_ranks(const std::vector<Facts>& ranks) {
  std::set<std::string> nodes;
  int fewest = ranks[0].local_size, most = fewest;
  for (const Facts& f : ranks) {
    nodes.insert(f.node);
    fewest = std::min(fewest, f.local_size);
    most = std::max(most, f.local_size);
  }
  const std::string each =
      fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  return {"ranks", true,
          fmt::format("{} on {} node{}, {} a node", ranks.size(), nodes.size(),
                      nodes.size() == 1 ? "" : "s", each)};
}

Finding check_program(const std::vector<Facts>& ranks) {
  const int other =
      first_other(ranks, [](const Facts& a, const Facts& b) { return a.program != b.program; });
  if (other < 0) return {"program", true, "the same build everywhere"};
  return {"program", false,
          fmt::format("{} runs another build than rank 0: install the same one everywhere",
                      place(ranks, other))};
}

Finding check_mpi(const std::vector<Facts>& ranks) {
  const int other =
      first_other(ranks, [](const Facts& a, const Facts& b) { return is_different(a.mpi, b.mpi); });
  if (other < 0) return {"mpi", true, ranks[0].mpi};
  return {"mpi", false,
          fmt::format("{} on rank 0, {} on {}: use one version", ranks[0].mpi,
                      ranks[static_cast<size_t>(other)].mpi, place(ranks, other))};
}

Finding check_processors(const std::vector<Facts>& ranks) {
  const int other = first_other(
      ranks, [](const Facts& a, const Facts& b) { return is_different(a.processor, b.processor); });
  if (other < 0) {
    return {"processors", true,
            fmt::format("{}, {} CPUs a rank", ranks[0].processor, ranks[0].cpus)};
  }
  return {"processors", true,
          fmt::format("{} has {}, rank 0 {}: a resume on other nodes may differ in last bits",
                      place(ranks, other), ranks[static_cast<size_t>(other)].processor,
                      ranks[0].processor)};
}

Finding check_limits(const std::vector<Facts>& ranks) {
  constexpr int64_t kFiles = 1024, kLocked = int64_t{64} << 20, kShared = int64_t{64} << 20;
  for (size_t q = 0; q < ranks.size(); ++q) {
    const Facts& f = ranks[q];
    const std::string where = place(ranks, static_cast<int>(q));
    if (f.open_files >= 0 && f.open_files < kFiles) {
      return {
          "limits", false,
          fmt::format("{} may open {} files only: ulimit -n {}", where, f.open_files, kFiles * 4)};
    }
    const bool pins = f.infiniband && static_cast<size_t>(f.local_size) < ranks.size();
    if (pins && f.locked_bytes >= 0 && f.locked_bytes < kLocked) {
      return {"limits", false,
              fmt::format("{} may pin {} KiB only: ulimit -l unlimited (InfiniBand needs it)",
                          where, f.locked_bytes >> 10)};
    }
    if (f.local_size > 1 && f.shared_memory_bytes < kShared) {
      return {"limits", false,
              fmt::format("/dev/shm has {} MiB free on {}: MPI's and NCCL's own messages within a "
                          "node pass through it; give a container --shm-size=8g or --ipc=host",
                          f.shared_memory_bytes >> 20, f.node)};
    }
  }
  return {"limits", true, "open files, pinned memory and /dev/shm suffice"};
}

Finding check_clocks(const std::vector<Facts>& ranks) {
  constexpr double kMost = 2;
  double early = ranks[0].clock, late = early;
  for (const Facts& f : ranks) {
    early = std::min(early, f.clock);
    late = std::max(late, f.clock);
  }
  if (late - early <= kMost) return {"clocks", true, "agree"};
  return {"clocks", false,
          fmt::format("differ by {:.1f} s: start chrony or ntpd (profiles are lined up by them)",
                      late - early)};
}

Finding check_gpus(const std::vector<Facts>& ranks, bool needed) {
  if (!any_gpu(ranks)) {
    const char* why = !ranks[0].built_with_cuda ? "this build is for CPUs"
                      : ranks[0].driver[0]      ? "the driver offers none"
                                                : "no NVIDIA driver here";
    const char* what = !needed                    ? "dlrm-train runs with --device cpu"
                       : ranks[0].built_with_cuda ? "look at nvidia-smi and CUDA_VISIBLE_DEVICES"
                                                  : "build with launch/build.sh cuda";
    return {"gpus", !needed, fmt::format("none ({}): {}", why, what)};
  }
  for (size_t q = 0; q < ranks.size(); ++q) {
    if (ranks[q].gpus > 0) continue;
    return {"gpus", false,
            fmt::format("{} is offered none, others are: look at nvidia-smi there, and at "
                        "CUDA_VISIBLE_DEVICES",
                        place(ranks, static_cast<int>(q)))};
  }
  const int other =
      first_other(ranks, [](const Facts& a, const Facts& b) { return is_different(a.gpu, b.gpu); });
  const std::string kinds =
      other < 0 ? ranks[0].gpu
                : fmt::format("{} and {}", ranks[0].gpu, ranks[static_cast<size_t>(other)].gpu);
  return {"gpus", true,
          fmt::format("{} a node: {}{}", ranks[0].gpus, kinds,
                      own_gpus(ranks) ? "" : "; ranks share them (comm: staged, slow)")};
}

Finding check_driver(const std::vector<Facts>& ranks) {
  const int other = first_other(
      ranks, [](const Facts& a, const Facts& b) { return is_different(a.driver, b.driver); });
  if (other >= 0) {
    return {"driver", false,
            fmt::format("{} has {}, rank 0 {}: install one version", place(ranks, other),
                        ranks[static_cast<size_t>(other)].driver, ranks[0].driver)};
  }
  const Facts& f = ranks[0];
  if (f.driver_cuda / 1000 < f.program_cuda / 1000) {
    return {"driver", false,
            fmt::format("{} serves CUDA {}, this program needs {}: install a newer driver",
                        f.driver, cuda(f.driver_cuda), cuda(f.program_cuda))};
  }
  return {"driver", true,
          fmt::format("{}, serves CUDA {}; this program has {}",
                      f.driver[0] ? f.driver : "of an unknown version", cuda(f.driver_cuda),
                      cuda(f.program_cuda))};
}

Finding check_peer_access(const std::vector<Facts>& ranks) {
  for (const Facts& f : ranks) {
    if (!f.without_peer[0]) continue;
    return {"peer access", true,
            fmt::format("on {} GPUs {} reach each other through host memory only: slower", f.node,
                        f.without_peer)};
  }
  return {"peer access", true, ranks[0].gpus > 1 ? "between all GPUs of a node" : "one GPU a node"};
}

Finding check_nccl(const std::vector<Facts>& ranks) {
  for (size_t q = 0; q < ranks.size(); ++q) {
    if (!ranks[q].nccl_obstacle[0]) continue;
    return {"nccl", false,
            fmt::format("{}: {}", place(ranks, static_cast<int>(q)), ranks[q].nccl_obstacle)};
  }
  const int other = first_other(
      ranks, [](const Facts& a, const Facts& b) { return is_different(a.nccl, b.nccl); });
  if (other < 0) return {"nccl", true, ranks[0].nccl};
  return {"nccl", false,
          fmt::format("{} on rank 0, {} on {}: install one version", ranks[0].nccl,
                      ranks[static_cast<size_t>(other)].nccl, place(ranks, other))};
}

}  // namespace dlrm::preflight
