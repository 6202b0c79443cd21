#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/core/crc32c.h"
#include "dlrm/core/file.h"

namespace dlrm {

/// Bytes that saving, verifying and loading hold in memory at a time.
inline constexpr size_t kCheckpointChunk = size_t{16} << 20;

std::string rank_file_name(int rank);        ///< rank_00000.h5
std::string step_folder_name(int64_t step);  ///< step_000000000
/// The step of a checkpoint's folder name. Empty if the name is not one.
std::optional<int64_t> step_number(const std::string& name);
/// The last name of a path, whether or not a slash follows it.
std::string folder_name(const std::string& path);
/// Names of the step_* folders in `directory`, newest first. Empty if there are none.
std::vector<std::string> list_checkpoints(const std::string& directory);

/// The folder name of the checkpoint that the link `best` names. Empty if there is none.
std::optional<std::string> best_checkpoint(const std::string& directory);
/// Makes `best` a link to `name`, atomically. Throws run_error if that fails.
void link_best(const std::string& directory, const std::string& name);
/// Removes the link `best` if it names no checkpoint, or in any case if `always`.
void unlink_best(const std::string& directory, bool always);
/// Returns the path of the step_* folder if `path` is a link to one in the same folder, otherwise
/// `path`.
std::string resolve_link(const std::string& path);

/// CRC32C of a whole file.
uint32_t crc32c_of_file(const std::string& path);
/// Removes every .tmp_step_* of the folder. Errors are ignored.
void remove_leftovers(const std::string& directory);
/// Removes one checkpoint. Renames it first, so that a crash leaves no incomplete folder of that
/// name.
void remove_checkpoint(const std::string& directory, const std::string& name);

}  // namespace dlrm
