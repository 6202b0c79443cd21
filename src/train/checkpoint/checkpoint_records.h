#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint_index.h"

namespace dlrm {

/// The tensors, pieces, files and tuned algorithms of an index as lists of numbers: how index.h5
/// stores them and how ranks exchange them.
struct IndexRecords {
  std::string names;                               ///< of the tensors, each with '\n' after it
  std::vector<int64_t> shapes;                     ///< 3 a tensor: dimensions, rows, columns
  std::vector<int64_t> pieces;                     ///< 7 a piece, in the order of StoredPiece
  std::optional<std::vector<int64_t>> piece_crcs;  ///< one a piece; none in old checkpoints
  std::vector<int64_t> files;                      ///< 2 a rank: bytes, CRC32C
  /// The number of ranks, the bytes of each, then the bytes. Each rank starts a new element. May be
  /// empty.
  std::vector<int64_t> tuned_algorithms;

  bool operator==(const IndexRecords&) const = default;
};

IndexRecords pack_index(const CheckpointIndex& index);

/// Fills all but the rest of the state. Throws a run_error that begins with `where` if a list has
/// too many or too few numbers. check_index() checks the numbers themselves. Tuned algorithms that
/// do not fit are left out.
CheckpointIndex unpack_index(const IndexRecords& records, const std::string& where);

}  // namespace dlrm
