#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "dlrm/comm/world.h"
#include "dlrm/core/trace.h"

#include "preflight/checks.h"

namespace {

using dlrm::preflight::Facts;
using dlrm::preflight::Finding;

constexpr double kTimeout = 30;  // seconds without progress

struct Arguments {
  std::string folder = ".";
  bool need_gpu = false;
};

/// Prints each finding at once. Returns true at the end if all of them were good.
class Report {
 public:
  explicit Report(bool prints) : prints_(prints) {}
  void add(const Finding& finding) {
    good_ &= finding.good;
    if (!prints_) return;
    std::printf("%-7s %-13s %s\n", finding.good ? "ok" : "failed", finding.name,
                finding.text.c_str());
    std::fflush(stdout);
  }
  bool good() const { return good_; }

 private:
  const bool prints_;
  bool good_ = true;
};

void check_all(dlrm::World& world, const Arguments& arguments, Report& report) {
  using namespace dlrm::preflight;
  const std::vector<Facts> ranks = gather_facts(world);
  for (const auto check :
       {check_ranks, check_program, check_mpi, check_processors, check_limits, check_clocks}) {
    report.add(check(ranks));
  }
  report.add(try_exchange(world));
  report.add(try_folder(world, arguments.folder));
  const Finding gpus = check_gpus(ranks, arguments.need_gpu);
  report.add(gpus);
  if (!gpus.good || !any_gpu(ranks)) return;
  report.add(check_driver(ranks));
  report.add(check_peer_access(ranks));
  if (own_gpus(ranks)) report.add(check_nccl(ranks));
  if (report.good()) report.add(try_devices(world, ranks));
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Checks the requirements of a long run among the ranks that mpirun or srun started. "
      "launch/preflight.sh starts it.");
  app.set_version_flag("--version", std::string("dlrm-preflight ") + DLRM_VERSION);
  app.add_option("--folder", arguments.folder, "a folder that all ranks must share");
  app.add_flag("--need-gpu", arguments.need_gpu, "fail if a rank has no GPU");
  std::exception_ptr unread;  // said by one rank, once all have started
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError&) {
    unread = std::current_exception();
  }
  dlrm::World world(&argc, &argv);
  try {
    if (unread) std::rethrow_exception(unread);
    dlrm::Trace trace;
    world.start_watchdog(kTimeout, trace);
    Report report(world.rank() == 0);
    check_all(world, arguments, report);
    world.finish();
    return report.good() ? 0 : 2;
  } catch (const CLI::Success& help) {
    if (world.rank() == 0) app.exit(help);
    world.finish();
    return 0;
  } catch (const CLI::ParseError& error) {
    if (world.rank() == 0) {
      fmt::print(stderr, "error: {} (see dlrm-preflight --help)\n", error.what());
    }
    world.finish();
    return static_cast<int>(dlrm::ExitCode::kUsage);
  } catch (const std::exception& error) {
    world.end_all(dlrm::ExitCode::kUsage, error.what());
  }
}
