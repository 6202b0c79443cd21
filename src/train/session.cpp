#include "dlrm/train/session.h"

#include <algorithm>
#include <exception>

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
  return options;
}

std::vector<TensorPiece> pieces_of(ShardedEmbeddings& embeddings) {
  std::vector<TensorPiece> pieces;
  for (const ShardArray& a : embeddings.arrays()) {
    TensorPiece piece;
    piece.path = a.path;
    piece.shape = a.shape;
    piece.rows = a.rows;
    piece.columns = a.columns;
    piece.saves = a.saves;
    const int64_t width = a.columns.size();
    piece.read = [a, width](int64_t first, int64_t count, float* out) {
      for (int64_t r = 0; r < count; ++r) {
        std::copy_n(a.data + (first + r) * a.stride, width, out + r * width);
      }
    };
    piece.write = [a, width](int64_t first, int64_t count, const float* in) {
      for (int64_t r = 0; r < count; ++r) {
        std::copy_n(in + r * width, width, a.data + (first + r) * a.stride);
      }
    };
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace dlrm
