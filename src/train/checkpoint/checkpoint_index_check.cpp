// What must hold among the numbers of an index, so that a loader reads what was saved or nothing.
#include <algorithm>
#include <map>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

#include "checkpoint_index.h"

namespace dlrm {

namespace {

// Products of sizes below this do not overflow, in bytes either.
constexpr int64_t kMostElements = int64_t{1} << 60;

void check_state(const CheckpointState& s, const std::string& where) {
  // Each step trains on at least one sample. A program of one's own may save no number of samples.
  const bool counted = s.samples == 0 || (s.step > 0 && s.samples >= s.step);
  const bool possible = s.step >= 0 && counted && s.epoch >= 0 && s.epoch <= s.step &&
                        s.batch >= 0 && s.batch <= s.step;
  if (possible) return;
  throw run_error("{}: step {}, samples {}, epoch {}, batch {} do not belong together", where,
                  s.step, s.samples, s.epoch, s.batch);
}

bool is_path(const std::string& text) {
  return text.size() > 1 && text[0] == '/' && !has_control_character(text);
}

void check_tensors(const std::vector<StoredTensor>& tensors, const std::string& where) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    const StoredTensor& tensor = tensors[t];
    if (!is_path(tensor.path)) throw run_error("{}: tensor {} has no path", where, t);
    if (t > 0 && tensors[t - 1].path >= tensor.path) {
      throw run_error("{}: tensor {} comes before {}", where, tensors[t - 1].path, tensor.path);
    }
    if (tensor.rows() < 1 || tensor.columns() < 1 ||
        tensor.rows() > kMostElements / tensor.columns()) {
      throw run_error("{}: {} has {} rows of {}", where, tensor.path, tensor.rows(),
                      tensor.columns());
    }
  }
}

bool lies_in(Range part, int64_t size) {
  return part.begin >= 0 && part.begin < part.end && part.end <= size;
}

/// Checks that no two pieces of a tensor share a cell. A line sweeps over the rows. It meets pieces
/// that are apart, so only neighbours need comparing.
class OverlapCheck {
 public:
  /// Returns false if `piece` overlaps an earlier one. Pieces come in order of their first rows.
  bool add(const StoredPiece& piece) {
    while (!ends_.empty() && ends_.begin()->first <= piece.rows.begin) {
      met_.erase(ends_.begin()->second);
      ends_.erase(ends_.begin());
    }
    const auto next = met_.lower_bound(piece.columns.begin);
    if (next != met_.end() && next->first < piece.columns.end) return false;
    if (next != met_.begin() && std::prev(next)->second > piece.columns.begin) return false;
    met_[piece.columns.begin] = piece.columns.end;
    ends_.emplace(piece.rows.end, piece.columns.begin);
    return true;
  }

 private:
  std::map<int64_t, int64_t> met_;        // columns that the line meets: end by begin
  std::multimap<int64_t, int64_t> ends_;  // first column by the row at which a piece ends
};

/// The pieces of one tensor, [first, last).
using Pieces = std::vector<StoredPiece>::const_iterator;

void check_cover(const StoredTensor& tensor, Pieces first, Pieces last, const std::string& where) {
  OverlapCheck overlaps;
  int64_t cells = 0;
  for (Pieces piece = first; piece != last; ++piece) {
    if (!lies_in(piece->rows, tensor.rows()) || !lies_in(piece->columns, tensor.columns())) {
      throw run_error("{}: a piece of {} lies outside of it", where, tensor.path);
    }
    const auto begin = [](const StoredPiece& p) {
      return std::pair(p.rows.begin, p.columns.begin);
    };
    if (piece != first && begin(*std::prev(piece)) >= begin(*piece)) {
      throw run_error("{}: the pieces of {} are not in order", where, tensor.path);
    }
    if (!overlaps.add(*piece)) throw run_error("{}: pieces of {} overlap", where, tensor.path);
    cells += piece->rows.size() * piece->columns.size();
  }
  if (cells != tensor.rows() * tensor.columns()) {
    throw run_error("{}: the pieces of {} do not make up the whole of it", where, tensor.path);
  }
}

void check_place(const CheckpointIndex& index, const StoredPiece& piece, const std::string& where) {
  const std::string& path = index.tensors[static_cast<size_t>(piece.tensor)].path;
  if (piece.rank < 0 || piece.rank >= static_cast<int64_t>(index.files.size())) {
    throw run_error("{}: a piece of {} is in file {} of {}", where, path, piece.rank,
                    index.files.size());
  }
  const int64_t size = index.files[static_cast<size_t>(piece.rank)].bytes;
  if (piece.offset < 0 || piece.offset > size || piece.bytes() > size - piece.offset) {
    throw run_error("{}: a piece of {} lies outside of its file", where, path);
  }
  if (piece.crc32c != StoredPiece::kNoCrc && (piece.crc32c < 0 || piece.crc32c > UINT32_MAX)) {
    throw run_error("{}: {} is no CRC32C of a piece of {}", where, piece.crc32c, path);
  }
}

void check_files(const CheckpointIndex& index, const std::string& where) {
  for (const StoredFile& file : index.files) {
    if (file.bytes < 0 || file.crc32c < 0 || file.crc32c > UINT32_MAX) {
      throw run_error("{}: a file has {} bytes and CRC32C {}", where, file.bytes, file.crc32c);
    }
  }
  std::vector<const StoredPiece*> pieces;
  for (const StoredPiece& piece : index.pieces) pieces.push_back(&piece);
  std::sort(pieces.begin(), pieces.end(), [](const StoredPiece* a, const StoredPiece* b) {
    return std::pair(a->rank, a->offset) < std::pair(b->rank, b->offset);
  });
  for (size_t i = 1; i < pieces.size(); ++i) {
    const StoredPiece &a = *pieces[i - 1], &b = *pieces[i];
    if (a.rank == b.rank && a.offset + a.bytes() > b.offset) {
      throw run_error("{}: pieces of {} and {} overlap in their file", where,
                      index.tensors[static_cast<size_t>(a.tensor)].path,
                      index.tensors[static_cast<size_t>(b.tensor)].path);
    }
  }
}

}  // namespace

void check_index(const CheckpointIndex& index, const std::string& where) {
  check_state(index.state, where);
  check_tensors(index.tensors, where);
  auto piece = index.pieces.begin();
  for (size_t t = 0; t < index.tensors.size(); ++t) {
    const auto first = piece;
    while (piece != index.pieces.end() && piece->tensor == static_cast<int64_t>(t)) ++piece;
    check_cover(index.tensors[t], first, piece, where);
    std::for_each(first, piece, [&](const StoredPiece& p) { check_place(index, p, where); });
  }
  if (piece != index.pieces.end()) {
    throw run_error("{}: a piece belongs to tensor {} of {}", where, piece->tensor,
                    index.tensors.size());
  }
  check_files(index, where);
}

}  // namespace dlrm
