#include <csignal>
#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/error.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/machine.h"
#include "dlrm/train/spin_limit.h"

#include "serve/lines.h"

namespace dlrm {
namespace {

constexpr int kMostThreads = 1024;
constexpr int64_t kMostBatch = int64_t{1} << 20;

struct Arguments {
  std::string checkpoint;
  int threads = 0;
  serve::LoadOptions load;
};

void declare(CLI::App& app, Arguments& a) {
  const std::map<std::string, serve::TableType> types = {{"fp32", serve::TableType::kFp32},
                                                         {"bf16", serve::TableType::kBf16},
                                                         {"int8", serve::TableType::kInt8}};
  app.set_version_flag("--version", std::string("dlrm-infer ") + DLRM_VERSION);
  app.add_option("CHECKPOINT", a.checkpoint,
                 "a folder of checkpoints, whose newest good one is taken, or one of them")
      ->required();
  app.add_option("--tables", a.load.tables,
                 "how rows are held in memory: fp32, bf16, or int8 with a scale for each row "
                 "(default: as trained)")
      ->transform(CLI::CheckedTransformer(types))
      ->type_name("TYPE");
  app.add_option("--batch-size", a.load.batch_size, "samples computed at once, at most (256)")
      ->check(CLI::Range(int64_t{1}, kMostBatch));
  app.add_option("--threads", a.threads, "that compute (default: OMP_NUM_THREADS, or all CPUs)")
      ->check(CLI::Range(1, kMostThreads));
}

/// The folder of the checkpoint to load.
std::string find(Communicator& comm, const std::string& given) {
  const auto found = find_checkpoint(comm, given);
  if (!found) throw usage_error("{}: there is no checkpoint", given);
  return *found;
}

void run(Arguments& a) {
  const auto comm = make_self_comm();
  a.load.threads = threads_for(a.threads, machine_share(*comm));
  serve::TrainedModel model(find(*comm, a.checkpoint), a.load);
  const Log log;
  log.info("{} (step {}): {} features, tables of {:.1f} MiB, {} thread{}", model.checkpoint(),
           model.step(), model.inputs().features.size(),
           static_cast<double>(model.table_bytes()) / 0x1p20, a.load.threads,
           a.load.threads == 1 ? "" : "s");
  serve::predict_lines(model, a.load.batch_size, STDIN_FILENO, STDOUT_FILENO);
}

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  using dlrm::ExitCode;
  dlrm::limit_spinning(argv);
  // A reader of the answers that has gone is then an error of a write.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app{"Predicts with a trained model: a sample per line of stdin, in JSON.", "dlrm-infer"};
  dlrm::Arguments arguments;
  ExitCode code = ExitCode::kDone;
  dlrm::declare(app, arguments);
  try {
    app.parse(argc, argv);
    dlrm::run(arguments);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "error: {} (see dlrm-infer --help)\n", error.what());
    code = ExitCode::kUsage;
  } catch (const dlrm::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    code = error.code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    code = ExitCode::kFailure;
  }
  return static_cast<int>(code);
}
