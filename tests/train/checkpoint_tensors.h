#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/train/checkpoint.h"

namespace dlrm::testing {

/// A folder of its own, removed with its owner.
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

/// The part of a tensor that one rank holds, dense, row by row.
struct HeldPiece {
  TensorShard piece;
  std::shared_ptr<std::vector<float>> values;
};

/// What element (row, column) of a tensor is; `salt` makes another set of values.
float element_of(const std::string& path, int64_t row, int64_t column, int salt);

/// Some tensors of odd shapes, cut for `ranks` ranks: this rank's parts, filled with element_of, or
/// with zeros where `filled` is false. A grid gives a rank two pieces of a tensor.
std::vector<HeldPiece> held_pieces(int rank, int ranks, Cut cut, bool filled, int salt = 0);
std::vector<TensorShard> pieces_of(const std::vector<HeldPiece>& held);

/// Elements that differ from element_of, bit by bit.
int64_t wrong_elements(const std::vector<HeldPiece>& held, int salt = 0);

CheckpointState state_at(int64_t step);

/// Saves what `ranks` ranks hold.
void save_on(int ranks, Cut cut, const std::string& directory, int64_t step, int keep = 2,
             int salt = 0);

}  // namespace dlrm::testing
