#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/train/checkpoint.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"
#include "checkpoint_verify.h"
#include "shard_chunks.h"

namespace dlrm {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// What both have. Its size is not positive if that is nothing.
Range overlap(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

/// Reads rectangles of stored tensors. The last rank file stays open.
class Reader {
 public:
  Reader(const std::string& folder, const CheckpointIndex& index)
      : folder_(folder), index_(index) {}

  void load(const std::vector<const TensorShard*>& pieces) {
    std::vector<std::vector<StoredPiece>> sources;
    for (const TensorShard* piece : pieces) sources.push_back(sources_of(*piece, find(*piece)));
    each_chunk(pieces, [&](size_t i, Range rows) {
      const TensorShard& piece = *pieces[i];
      const Range part{piece.rows.begin + rows.begin, piece.rows.begin + rows.end};
      const auto size = static_cast<size_t>(rows.size() * piece.columns.size());
      chunk_.resize(std::max(chunk_.size(), size));
      for (const StoredPiece& source : sources[i]) copy(source, part, piece.columns);
      write_chunk(piece, rows, chunk_.data());
    });
  }

  std::optional<PlaceInFile> place_of(const TensorShard& piece) const {
    const std::vector<StoredPiece> sources = sources_of(piece, find(piece));
    if (sources.size() != 1) return {};
    const StoredPiece& source = sources[0];
    // The pieces of an index cover each tensor, so one alone with all columns has all rows.
    if (source.columns != piece.columns) return {};
    return PlaceInFile{file_of(source), offset_of(source, piece.rows.begin)};
  }

 private:
  static int64_t rows_at_once(int64_t columns) {
    return std::max<int64_t>(1, static_cast<int64_t>(kCheckpointChunk / sizeof(float)) / columns);
  }

  const StoredTensor& find(const TensorShard& piece) const {
    const auto tensor = std::lower_bound(
        index_.tensors.begin(), index_.tensors.end(), piece.path,
        [](const StoredTensor& t, const std::string& path) { return t.path < path; });
    if (tensor == index_.tensors.end() || tensor->path != piece.path) {
      throw usage_error("{}: has no tensor {}, here of shape {}", folder_, piece.path,
                        shape_text(piece.shape));
    }
    if (tensor->shape != piece.shape) {
      throw usage_error("{}: {} has shape {}, here it is {}", folder_, piece.path,
                        shape_text(tensor->shape), shape_text(piece.shape));
    }
    return *tensor;
  }

  std::vector<StoredPiece> sources_of(const TensorShard& piece, const StoredTensor& tensor) const {
    const int64_t number = &tensor - index_.tensors.data();
    auto source =
        std::lower_bound(index_.pieces.begin(), index_.pieces.end(), number,
                         [](const StoredPiece& stored, int64_t t) { return stored.tensor < t; });
    std::vector<StoredPiece> sources;
    for (; source != index_.pieces.end() && source->tensor == number; ++source) {
      if (overlap(source->rows, piece.rows).size() > 0 &&
          overlap(source->columns, piece.columns).size() > 0) {
        sources.push_back(*source);
      }
    }
    return sources;
  }

  /// Copies the part of `source` that is in the rectangle to chunk_.
  void copy(const StoredPiece& source, Range rows, Range columns) {
    const Range r = overlap(source.rows, rows);
    const Range c = overlap(source.columns, columns);
    if (r.size() <= 0) return;
    if (source.columns == columns) {
      read_rows(source, r, chunk_.data() + (r.begin - rows.begin) * columns.size());
      return;
    }
    const int64_t width = source.columns.size();
    const int64_t most = rows_at_once(width);
    for (int64_t row = r.begin; row < r.end; row += most) {
      const int64_t count = std::min(most, r.end - row);
      whole_rows_.resize(std::max(whole_rows_.size(), static_cast<size_t>(count * width)));
      read_rows(source, {row, row + count}, whole_rows_.data());
      for (int64_t i = 0; i < count; ++i) {
        const float* from = whole_rows_.data() + i * width + (c.begin - source.columns.begin);
        float* to =
            chunk_.data() + (row + i - rows.begin) * columns.size() + (c.begin - columns.begin);
        std::copy(from, from + c.size(), to);
      }
    }
  }

  std::string file_of(const StoredPiece& source) const {
    return folder_ + "/" + rank_file_name(static_cast<int>(source.rank));
  }

  static int64_t row_bytes(const StoredPiece& source) {
    return source.columns.size() * static_cast<int64_t>(sizeof(float));
  }

  /// Where row `row` of the tensor begins in the file of `source`.
  static int64_t offset_of(const StoredPiece& source, int64_t row) {
    return source.offset + (row - source.rows.begin) * row_bytes(source);
  }

  void read_rows(const StoredPiece& source, Range rows, float* out) {
    if (!file_ || file_rank_ != source.rank) {
      file_.emplace(file_of(source), File::Mode::kRead);
      file_rank_ = source.rank;
    }
    file_->read(out, static_cast<size_t>(rows.size() * row_bytes(source)),
                offset_of(source, rows.begin));
  }

  std::string folder_;
  const CheckpointIndex& index_;
  std::optional<File> file_;
  int64_t file_rank_ = -1;
  std::vector<float> chunk_;
  std::vector<float> whole_rows_;
};

}  // namespace

void load_pieces(Communicator& comm, const std::string& checkpoint,
                 const std::vector<TensorShard>& pieces, bool weights_only) {
  const CheckpointIndex index = verify_checkpoint(comm, checkpoint, Verify::kSizes);
  agree(comm, [&] {
    std::vector<const TensorShard*> loaded;
    for (const TensorShard& piece : pieces) {
      if (!weights_only || !piece.is_state) loaded.push_back(&piece);
    }
    Reader(checkpoint, index).load(loaded);
  });
}

std::vector<std::optional<PlaceInFile>> find_in_files(Communicator& comm,
                                                      const std::string& checkpoint,
                                                      const std::vector<TensorShard>& pieces) {
  const CheckpointIndex index = verify_checkpoint(comm, checkpoint, Verify::kSizes);
  std::vector<std::optional<PlaceInFile>> places;
  agree(comm, [&] {
    const Reader reader(checkpoint, index);
    for (const TensorShard& piece : pieces) places.push_back(reader.place_of(piece));
  });
  return places;
}

}  // namespace dlrm
