#include "checkpoint_verify.h"

#include <filesystem>

#include "dlrm/core/error.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"

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

void verify_file(const std::string& path, const StoredFile& stored, Verify depth) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) throw run_error("{}: {}", path, error.message());
  if (bytes != stored.bytes) {
    throw run_error("{}: damaged ({} bytes, should be {})", path, bytes, stored.bytes);
  }
  if (depth == Verify::kSizes) return;
  const uint32_t crc = crc32c_of_file(path);
  if (crc != static_cast<uint32_t>(stored.crc32c)) {
    throw run_error("{}: damaged (CRC32C {:08x}, should be {:08x})", path, crc,
                    static_cast<uint32_t>(stored.crc32c));
  }
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
      verify_file(folder + "/" + rank_file_name(file), index.files[static_cast<size_t>(file)],
                  depth);
    }
  });
  return index;
}

}  // namespace dlrm
