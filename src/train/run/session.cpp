#include "dlrm/train/session.h"

#include <exception>

#include "dlrm/device/transfer.h"
#include "dlrm/train/machine.h"

namespace dlrm {

namespace {

/// Ends every rank with the current exception. Another rank's error is reported by that rank.
[[noreturn]] void end_with_current_error(World& world) {
  try {
    throw;
  } catch (const PeerLost& error) {
    world.end_all(error.code(), "");
  } catch (const Error& error) {
    world.end_all(error.code(), error.what());
  } catch (const std::exception& error) {
    world.end_all(ExitCode::kFailure, error.what());
  }
}

}  // namespace

ExitCode end_where_it_fails(World& world, const std::function<ExitCode()>& body) {
  try {
    return body();
  } catch (...) {
    end_with_current_error(world);
  }
}

int run_guarded(World& world, const std::function<ExitCode()>& body) {
  const ExitCode code = end_where_it_fails(world, body);
  if (code != ExitCode::kDone) world.end_all(code, "");
  return static_cast<int>(end_where_it_fails(world, [&] {
    world.finish();
    return ExitCode::kDone;
  }));
}

Session::Session(int* argc, char*** argv, int threads, DeviceKind device)
    : world_(argc, argv), log_(world_.rank()) {
  start(threads, device);
}

Session::Session(RunningMpi mpi, double mpi_timeout, int threads, DeviceKind device)
    : world_(mpi, mpi_timeout), log_(world_.rank()) {
  start(threads, device);
}

void Session::start(int threads, DeviceKind device) {
  const MachineShare share = machine_share(world_.comm());
  RunConfig config;
  config.device = device;
  execution_ = std::make_unique<Execution>(world_.comm(), config, share);
  context_ = std::make_unique<Context>(execution_->context(trace_, log_));
  world_.use_threads(threads_for(threads, share));
  ops_ = execution_->make_ops(threads_for(threads, share), false);
}

EmbeddingOptions embedding_options(const RunConfig& config) {
  EmbeddingOptions options;
  options.tables = config.model.tables;
  options.optimizer = config.train.sparse_optimizer;
  options.wire = config.sent_types();
  options.routing = config.routing;
  options.routing.depth = config.batches_ahead();
  options.cached = config.memory.cached;
  if (options.cached.directory.empty()) options.cached.directory = config.output.directory;
  options.seed = config.train.seed;
  options.max_global_batch = config.train.global_batch_size;
  return options;
}

}  // namespace dlrm
