#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/train/checkpoint.h"

namespace dlrm::testing {

/// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name = "") const;

 private:
  std::filesystem::path path_;
};

enum class Cut { kRows, kColumns, kGrid, kByTensor };

/// The part of a tensor that one rank holds, without gaps, row by row.
struct HeldPiece {
  TensorShard piece;
  std::shared_ptr<std::vector<float>> values;
};

/// The value of element (row, column) of a tensor. Another `salt` gives other values.
float element_of(const std::string& path, int64_t row, int64_t column, int salt);

/// This rank's parts of some tensors of unusual shapes, cut for `ranks` ranks. Filled with
/// element_of, or with zeros if `filled` is false. With a grid a rank has two pieces of a tensor.
std::vector<HeldPiece> held_pieces(int rank, int ranks, Cut cut, bool filled, int salt = 0);
std::vector<TensorShard> pieces_of(const std::vector<HeldPiece>& held);

/// The number of elements that differ bitwise from element_of.
int64_t wrong_elements(const std::vector<HeldPiece>& held, int salt = 0);

CheckpointState state_at(int64_t step);

/// Saves the pieces of `ranks` ranks.
void save_on(int ranks, Cut cut, const std::string& directory, int64_t step, int keep = 2,
             int salt = 0);

}  // namespace dlrm::testing
