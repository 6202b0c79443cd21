#include "dlrm/train/session.h"

#include <algorithm>
#include <exception>

#include "dlrm/device/transfer.h"
#include "dlrm/train/machine.h"

namespace dlrm {

int run_guarded(World& world, const std::function<ExitCode()>& body) {
  ExitCode code = ExitCode::kFailure;
  std::string text;
  try {
    code = body();
    if (code == ExitCode::kDone) {
      world.finish();
      return 0;
    }
  } catch (const PeerLost& error) {
    code = error.code();
  } catch (const Error& error) {
    code = error.code();
    text = error.what();
  } catch (const std::exception& error) {
    text = error.what();
  }
  world.end_all(code, text);
}

Session::Session(int* argc, char*** argv, int threads)
    : world_(argc, argv), log_(world_.rank()), device_(make_cpu_device()) {
  stream_ = device_->make_stream();
  context_.reset(new Context{*device_, *stream_, world_.comm(), trace_, log_});
  ops_ = make_cpu_ops(*device_, *stream_, threads_for(threads, machine_share(world_.comm())));
}

EmbeddingOptions embedding_options(const RunConfig& config) {
  EmbeddingOptions options;
  options.tables = config.model.tables;
  options.optimizer = config.train.sparse_optimizer;
  options.wire = config.train.wire;
  options.routing = config.routing;
  options.seed = config.train.seed;
  options.max_global_batch = config.train.global_batch_size;
  for (const TableConfig& table : config.model.tables) {
    const auto own = config.memory.tables.find(table.name);
    const MemoryTier tier = own == config.memory.tables.end() ? config.memory.tier : own->second;
    options.places.push_back(tier == MemoryTier::kHost ? Place::kHost : Place::kDevice);
  }
  return options;
}

std::vector<TensorPiece> pieces_of(Context& context, ShardedEmbeddings& embeddings) {
  const auto transfer = std::make_shared<Transfer>(context.device, context.stream);
  std::vector<TensorPiece> pieces;
  for (const ShardArray& a : embeddings.arrays()) {
    TensorPiece piece;
    piece.path = a.path;
    piece.shape = a.shape;
    piece.rows = a.rows;
    piece.columns = a.columns;
    piece.saves = a.saves;
    const int64_t width = a.columns.size();
    piece.read = [transfer, a, width](int64_t first, int64_t count, float* out) {
      transfer->read_rows(a.data + first * a.stride, a.stride, count, width, out);
    };
    piece.write = [transfer, a, width](int64_t first, int64_t count, const float* in) {
      transfer->write_rows(a.data + first * a.stride, a.stride, count, width, in);
    };
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace dlrm
