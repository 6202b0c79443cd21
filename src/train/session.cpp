#include "dlrm/train/session.h"

#include <algorithm>
#include <exception>
#include <type_traits>

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
  options.wire = config.train.wire;
  options.routing = config.routing;
  options.seed = config.train.seed;
  options.max_global_batch = config.train.global_batch_size;
  return options;
}

namespace {

template <class T>
void read_rows(Transfer& transfer, const ShardArray& a, int64_t first, int64_t count, float* out) {
  const int64_t width = a.columns.size();
  const T* from = static_cast<const T*>(a.data) + first * a.stride;
  if constexpr (std::is_same_v<T, float>) {
    transfer.read_rows(from, a.stride, count, width, out);
  } else {
    std::vector<T> stored(static_cast<size_t>(count * width));
    transfer.read_rows(from, a.stride, count, width, stored.data());
    std::transform(stored.begin(), stored.end(), out, [](T v) { return static_cast<float>(v); });
  }
}

template <class T>
void write_rows(Transfer& transfer, const ShardArray& a, int64_t first, int64_t count,
                const float* in) {
  const int64_t width = a.columns.size();
  T* to = static_cast<T*>(a.data) + first * a.stride;
  if constexpr (std::is_same_v<T, float>) {
    transfer.write_rows(to, a.stride, count, width, in);
  } else {
    std::vector<T> stored;
    stored.reserve(static_cast<size_t>(count * width));
    for (int64_t i = 0; i < count * width; ++i) stored.emplace_back(in[i]);
    transfer.write_rows(to, a.stride, count, width, stored.data());
  }
}

}  // namespace

std::vector<TensorShard> pieces_of(Context& context, ShardedEmbeddings& embeddings) {
  const auto transfer = std::make_shared<Transfer>(context.device, context.stream);
  std::vector<TensorShard> pieces;
  for (const ShardArray& a : embeddings.arrays()) {
    TensorShard piece;
    piece.path = a.path;
    piece.shape = a.shape;
    piece.rows = a.rows;
    piece.columns = a.columns;
    piece.saves = a.saves;
    const bool rounded = a.type == DType::kBFloat16;
    const auto read = rounded ? read_rows<BFloat16> : read_rows<float>;
    const auto write = rounded ? write_rows<BFloat16> : write_rows<float>;
    piece.read = [transfer, a, read](int64_t first, int64_t count, float* out) {
      read(*transfer, a, first, count, out);
    };
    piece.write = [transfer, a, write](int64_t first, int64_t count, const float* in) {
      write(*transfer, a, first, count, in);
    };
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace dlrm
