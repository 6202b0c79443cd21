#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/hdf5/file.h"
#include "dlrm/train/checkpoint.h"

namespace dlrm {

/// A stored rectangle of a tensor: contiguous float32, row by row.
struct StoredPiece {
  int64_t tensor = 0;  ///< index into CheckpointIndex::tensors
  Range rows;
  Range columns;
  int64_t rank = 0;    ///< of the file
  int64_t offset = 0;  ///< bytes from the start of the file
  int64_t crc32c = kNoCrc;

  static constexpr int64_t kNoCrc = -1;  ///< checkpoints before CRCs of pieces
  int64_t bytes() const {
    return rows.size() * columns.size() * static_cast<int64_t>(sizeof(float));
  }
};

struct StoredTensor {
  std::string path;
  std::vector<int64_t> shape;
  int64_t rows() const { return shape[0]; }
  int64_t columns() const { return shape.size() > 1 ? shape[1] : 1; }
};

struct StoredFile {
  int64_t bytes = 0;
  int64_t crc32c = 0;
};

/// The contents of index.h5.
struct CheckpointIndex {
  CheckpointState state;
  std::vector<StoredTensor> tensors;  ///< by path
  std::vector<StoredPiece> pieces;    ///< by tensor, first row, first column; none is empty
  std::vector<StoredFile> files;      ///< by rank
};

/// Name of a piece's dataset in its rank file: "/tables/C1/weight/rows_0-25_columns_0-16".
std::string piece_name(const std::string& tensor, Range rows, Range columns);

/// Creates an HDF5 file of a checkpoint, in the format that has checksums and virtual datasets.
hdf5::File create_checkpoint_file(const std::string& path);

/// Writes and syncs index.h5 and index.crc in `folder`.
void write_index(const std::string& folder, const CheckpointIndex& index);

/// Verifies index.h5 against index.crc and reads it. A run_error names the damaged part, or what
/// check_index() finds.
CheckpointIndex read_index(const std::string& folder);

/// Throws a run_error that begins with `where` unless all numbers of the index fit one another:
/// tensors are in order, each of their cells lies in exactly one piece, and pieces lie within their
/// files and apart. Needs time n·log n.
void check_index(const CheckpointIndex& index, const std::string& where);

/// Gives every rank the index of rank 0. Collective.
void broadcast_index(Communicator& comm, CheckpointIndex& index);

}  // namespace dlrm
