#include "checkpoint_rank_file.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "checkpoint_files.h"
#include "piece_digest.h"
#include "shard_chunks.h"

namespace dlrm {

namespace {

std::vector<int64_t> shape_of(const TensorShard& piece) {
  if (piece.shape.size() == 1) return {piece.rows.size()};
  return {piece.rows.size(), piece.columns.size()};
}

/// Lets HDF5 lay out the file. Returns the offset of each piece. The data is later written there
/// directly.
std::vector<int64_t> lay_out(const std::string& path,
                             const std::vector<const TensorShard*>& pieces) {
  hdf5::File file = create_checkpoint_file(path);
  file.set_text("format", "dlrm-checkpoint-part");
  std::vector<int64_t> offsets;
  for (const TensorShard* piece : pieces) {
    const std::string name = piece_name(piece->path, piece->rows, piece->columns);
    offsets.push_back(
        file.create_dataset(name, hdf5::Type::kFloat32, shape_of(*piece)).storage().offset);
  }
  file.close();
  return offsets;
}

/// Writes pieces to the file. Afterwards computes its CRC from those of the pieces, and from the
/// bytes between them.
class Sweep {
 public:
  explicit Sweep(const std::string& path)
      : file_(path, File::Mode::kReadWrite), size_(file_.size()) {}

  /// Writes rows of a piece, which has its place at `offset`.
  void write(const TensorShard& piece, Range rows, int64_t offset, PieceDigest& digest) {
    const int64_t row_bytes = piece.columns.size() * static_cast<int64_t>(sizeof(float));
    const auto bytes = static_cast<size_t>(rows.size() * row_bytes);
    auto* chunk = static_cast<float*>(reserve(bytes));
    read_chunk(piece, rows, chunk);
    digest.add({chunk, bytes / sizeof(float)});
    file_.write(chunk, bytes, offset + rows.begin * row_bytes);
  }

  /// Reads the bytes that HDF5 wrote between the pieces.
  void pass_to(int64_t end) {
    while (at_ < end) {
      const size_t bytes = std::min(kCheckpointChunk, static_cast<size_t>(end - at_));
      void* chunk = reserve(bytes);
      file_.read(chunk, bytes, at_);
      crc_.add(chunk, bytes);
      at_ += static_cast<int64_t>(bytes);
    }
  }

  void pass(const PieceDigest& piece) {
    crc_.append(piece.crc(), piece.bytes());
    at_ += piece.bytes();
  }

  StoredFile finish() {
    pass_to(size_);
    file_.sync();
    return {size_, crc_.value()};
  }

 private:
  void* reserve(size_t bytes) {
    chunk_.resize(std::max(chunk_.size(), bytes / sizeof(float) + 1));
    return chunk_.data();
  }

  File file_;
  int64_t size_;
  int64_t at_ = 0;
  Crc32c crc_;
  std::vector<float> chunk_;
};

}  // namespace

RankFile write_rank_file(const std::string& path, const std::vector<const TensorShard*>& pieces) {
  RankFile result;
  result.offsets = lay_out(path, pieces);
  result.crcs.resize(pieces.size());
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return result.offsets[a] < result.offsets[b]; });
  Sweep sweep(path);
  std::vector<PieceDigest> digests(pieces.size());
  each_chunk(pieces, [&](size_t i, Range rows) {
    sweep.write(*pieces[i], rows, result.offsets[i], digests[i]);
  });
  for (const size_t i : order) {
    const TensorShard& piece = *pieces[i];
    const PieceDigest& digest = digests[i];
    sweep.pass_to(result.offsets[i]);
    sweep.pass(digest);
    result.crcs[i] = digest.crc().value();
    if (digest.not_finite() && result.not_finite.empty()) {
      const int64_t row = piece.rows.begin + *digest.not_finite() / piece.columns.size();
      result.not_finite = fmt::format("{}, row {}", piece.path, row);
    }
  }
  result.file = sweep.finish();
  return result;
}

}  // namespace dlrm
