#include "checkpoint_verify.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "dlrm/core/error.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"
#include "piece_digest.h"

namespace dlrm {

namespace {

/// Checks that all ranks read the same index.crc. It differs between checkpoints, so equal contents
/// prove that all ranks see the same folder.
void check_same_folder(Communicator& comm, const std::string& folder) {
  const std::string file = folder + "/index.crc";
  const std::string expected =
      broadcast_text(comm, comm.rank() == 0 ? read_file(file).value_or("") : "");
  agree(comm, [&] {
    if (read_file(file).value_or("") == expected) return;
    throw usage_error("{}: {} does not see the same folder as rank 0; all ranks need the same one",
                      folder, rank_and_host(comm));
  });
}

/// Old checkpoints have no CRC for each piece. Their pieces lie where HDF5 put them.
void check_places(const std::string& path, const std::vector<const StoredPiece*>& pieces,
                  const CheckpointIndex& index) {
  std::optional<hdf5::File> file;
  for (const StoredPiece* piece : pieces) {
    if (piece->crc32c != StoredPiece::kNoCrc) continue;
    if (!file) file = hdf5::File::open(path);
    const StoredTensor& tensor = index.tensors[static_cast<size_t>(piece->tensor)];
    const hdf5::Dataset data = file->dataset(piece_name(tensor.path, piece->rows, piece->columns));
    const hdf5::Storage storage = data.storage();
    if (storage.kind == hdf5::Storage::Kind::kContiguous && storage.offset == piece->offset &&
        data.stored_bytes() == piece->bytes()) {
      continue;
    }
    throw run_error("{}: a piece of {} does not lie where index.h5 says", path, tensor.path);
  }
}

/// Reads a file once from the first byte to the last, and compares the CRC32C of the whole and of
/// each piece. Then all values must be finite.
class ContentCheck {
 public:
  ContentCheck(const std::string& path, const CheckpointIndex& index)
      : file_(path, File::Mode::kRead), index_(index), chunk_(kCheckpointChunk / sizeof(float)) {}

  /// `pieces` of the file, by offset.
  void run(const StoredFile& stored, const std::vector<const StoredPiece*>& pieces) {
    for (const StoredPiece* piece : pieces) {
      pass_to(piece->offset);
      read(*piece);
    }
    pass_to(stored.bytes);
    if (whole_.value() != static_cast<uint32_t>(stored.crc32c)) {
      throw run_error("{}: damaged (CRC32C {:08x}, should be {:08x})", file_.path(), whole_.value(),
                      static_cast<uint32_t>(stored.crc32c));
    }
    if (!fault_.empty()) throw run_error("{}: {}", file_.path(), fault_);
  }

 private:
  void pass_to(int64_t end) {
    while (at_ < end) {
      const size_t bytes = fetch(end);
      whole_.add(chunk_.data(), bytes);
    }
  }
  void read(const StoredPiece& piece) {
    PieceDigest digest;
    while (digest.bytes() < piece.bytes()) {
      const size_t bytes = fetch(piece.offset + piece.bytes());
      digest.add({chunk_.data(), bytes / sizeof(float)});
    }
    whole_.append(digest.crc(), digest.bytes());
    if (!fault_.empty()) return;
    const std::string& path = index_.tensors[static_cast<size_t>(piece.tensor)].path;
    if (piece.crc32c != StoredPiece::kNoCrc && piece.crc32c != digest.crc().value()) {
      fault_ = fmt::format("rows {} to {} of {} are not those of index.h5 (CRC32C {:08x})",
                           piece.rows.begin, piece.rows.end, path, digest.crc().value());
    } else if (const auto bad = digest.not_finite()) {
      fault_ = fmt::format("{} is not finite in row {}", path,
                           piece.rows.begin + *bad / piece.columns.size());
    }
  }
  /// Reads up to a chunk of the bytes before `end`. Returns their number.
  size_t fetch(int64_t end) {
    const size_t bytes = std::min(kCheckpointChunk, static_cast<size_t>(end - at_));
    file_.read(chunk_.data(), bytes, at_);
    at_ += static_cast<int64_t>(bytes);
    return bytes;
  }

  File file_;
  const CheckpointIndex& index_;
  std::vector<float> chunk_;
  int64_t at_ = 0;
  Crc32c whole_;
  std::string fault_;  // the first
};

void verify_file(const std::string& path, const CheckpointIndex& index, int64_t rank,
                 Verify depth) {
  const StoredFile& stored = index.files[static_cast<size_t>(rank)];
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) throw run_error("{}: {}", path, error.message());
  if (bytes != stored.bytes) {
    throw run_error("{}: damaged ({} bytes, should be {})", path, bytes, stored.bytes);
  }
  if (depth == Verify::kSizes) return;
  std::vector<const StoredPiece*> pieces;
  for (const StoredPiece& piece : index.pieces) {
    if (piece.rank == rank) pieces.push_back(&piece);
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const StoredPiece* a, const StoredPiece* b) { return a->offset < b->offset; });
  ContentCheck(path, index).run(stored, pieces);
  check_places(path, pieces, index);
}

}  // namespace

CheckpointIndex verify_checkpoint(Communicator& comm, const std::string& folder, Verify depth) {
  CheckpointIndex index;
  agree_on_root(comm, [&] { index = read_index(folder); });
  check_same_folder(comm, folder);
  broadcast_index(comm, index);
  agree(comm, [&] {
    const auto files = static_cast<int>(index.files.size());
    for (int file = comm.rank(); file < files; file += comm.size()) {
      verify_file(folder + "/" + rank_file_name(file), index, file, depth);
    }
  });
  return index;
}

}  // namespace dlrm
