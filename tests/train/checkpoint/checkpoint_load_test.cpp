// Which tensors of a checkpoint a rank may load, and where its pieces lie in the files.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/checkpoint.h"

#include "error_of.h"
#include "train/checkpoint/checkpoint_files.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

constexpr const char* kFolder = "step_000000007";

/// The error of asking for `piece`, besides tensors that are there.
std::string error_for(Communicator& comm, const std::string& checkpoint, const TensorShard& piece,
                      bool find) {
  const auto held = held_pieces(comm.rank(), comm.size(), Cut::kRows, false);
  auto pieces = pieces_of(held);
  pieces.insert(pieces.begin() + 2, piece);
  return usage_error_of([&] {
    find ? void(find_in_files(comm, checkpoint, pieces))
         : load_pieces(comm, checkpoint, pieces, false);
  });
}

TEST(CheckpointLoad, ATensorOfAnotherNameOrShapeIsNamed) {
  TemporaryFolder folder;
  save_on(2, Cut::kGrid, folder.path(), 7);
  const std::string saved = folder.path(kFolder);
  const std::string none = saved + ": has no tensor ";
  struct Case {
    const char* path;
    std::vector<int64_t> shape;
    std::string error;
  };
  // Most absent ones have the shape of the tensor that would follow them.
  const std::vector<Case> cases = {
      {"/a", {5}, none + "/a, here of shape [5]"},
      {"/mlp/bottom/0/a", {5}, none + "/mlp/bottom/0/a, here of shape [5]"},
      {"/mlp/bottom/0/bias_adagrad",
       {5, 13},
       none + "/mlp/bottom/0/bias_adagrad, here of shape [5, 13]"},
      {"/tables/C1/v", {37, 6}, none + "/tables/C1/v, here of shape [37, 6]"},
      {"/tables/C1/weights", {101, 16}, none + "/tables/C1/weights, here of shape [101, 16]"},
      {"/tables/a/weight", {1, 1}, none + "/tables/a/weight, here of shape [1, 1]"},
      {"/tables/single/weight_", {1, 1}, none + "/tables/single/weight_, here of shape [1, 1]"},
      {"/z", {2}, none + "/z, here of shape [2]"},
      {"/tables/C1/weight",
       {38, 6},
       saved + ": /tables/C1/weight has shape [37, 6], here it is "
               "[38, 6]"},
      {"/tables/C1/weight",
       {37, 5},
       saved + ": /tables/C1/weight has shape [37, 6], here it is "
               "[37, 5]"},
      {"/tables/C1/weight", {37}, saved + ": /tables/C1/weight has shape [37, 6], here it is [37]"},
      {"/tables/C1/adagrad",
       {37, 1},
       saved + ": /tables/C1/adagrad has shape [37], here it is "
               "[37, 1]"},
  };
  const auto comm = make_self_comm();
  for (const Case& c : cases) {
    const TensorShard piece{c.path, c.shape, {0, 1}, {0, 1}, true, {}, {}};
    for (const bool find : {false, true}) {
      EXPECT_EQ(error_for(*comm, saved, piece, find), c.error) << find;
    }
  }
}

TEST(CheckpointLoad, ATensorThatOneRankLacksIsAnErrorOfAll) {
  TemporaryFolder folder;
  save_on(1, Cut::kRows, folder.path(), 7);
  run_on_threads(2, [&](Communicator& comm) {
    const char* const path = comm.rank() == 1 ? "/absent" : "/tables/C1/adagrad";
    const TensorShard piece{path, {37}, {0, 0}, {0, 1}, true, {}, {}};
    for (const bool find : {false, true}) {
      EXPECT_EQ(error_for(comm, folder.path(kFolder), piece, find),
                folder.path(kFolder) + ": has no tensor /absent, here of shape [37]");
    }
  });
}

/// The tensor's values in the rectangle, read where find_in_files() says. Empty if it says nothing.
std::vector<float> found(Communicator& comm, const std::string& checkpoint, const TensorShard& of,
                         Range rows, Range columns) {
  TensorShard piece = of;
  piece.rows = rows, piece.columns = columns;
  const auto places = find_in_files(comm, checkpoint, {piece, piece});
  EXPECT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].has_value(), places[1].has_value());
  if (!places[0]) return {};
  std::vector<float> values(static_cast<size_t>(rows.size() * columns.size()));
  File(places[1]->file, File::Mode::kRead)
      .read(values.data(), values.size() * sizeof(float), places[1]->offset);
  return values;
}

std::vector<float> elements(const std::string& path, Range rows, Range columns) {
  std::vector<float> values;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t c = columns.begin; c < columns.end; ++c) {
      values.push_back(element_of(path, r, c, 0));
    }
  }
  return values;
}

TEST(CheckpointLoad, APieceIsFoundInAFileIfOneStoredPieceHoldsItsWholeRows) {
  struct Case {
    Cut saved;
    Range rows, columns;
    bool there;
  };
  const TensorShard table{"/tables/C1/weight", {37, 6}, {}, {}, true, {}, {}};
  // Two ranks have rows 0 to 18 and 18 to 37, or columns 0 to 3 and 3 to 6.
  const Case cases[] = {
      {Cut::kRows, {0, 18}, {0, 6}, true},    {Cut::kRows, {3, 7}, {0, 6}, true},
      {Cut::kRows, {18, 37}, {0, 6}, true},   {Cut::kRows, {20, 37}, {0, 6}, true},
      {Cut::kRows, {36, 37}, {0, 6}, true},   {Cut::kRows, {17, 19}, {0, 6}, false},
      {Cut::kRows, {0, 37}, {0, 6}, false},   {Cut::kRows, {20, 37}, {0, 5}, false},
      {Cut::kRows, {20, 37}, {1, 6}, false},  {Cut::kColumns, {0, 37}, {0, 3}, true},
      {Cut::kColumns, {5, 9}, {3, 6}, true},  {Cut::kColumns, {5, 9}, {0, 6}, false},
      {Cut::kColumns, {5, 9}, {2, 5}, false}, {Cut::kGrid, {1, 18}, {0, 3}, true},
      {Cut::kGrid, {18, 37}, {3, 6}, true},   {Cut::kGrid, {2, 19}, {3, 6}, false},
      {Cut::kGrid, {18, 37}, {0, 6}, false},  {Cut::kByTensor, {0, 37}, {0, 6}, true},
  };
  const auto comm = make_self_comm();
  for (const Cut cut : {Cut::kRows, Cut::kColumns, Cut::kGrid, Cut::kByTensor}) {
    TemporaryFolder folder;
    save_on(2, cut, folder.path(), 7);
    for (const Case& c : cases) {
      if (c.saved != cut) continue;
      EXPECT_EQ(found(*comm, folder.path(kFolder), table, c.rows, c.columns),
                c.there ? elements(table.path, c.rows, c.columns) : std::vector<float>())
          << "case " << &c - cases;
    }
  }
}

/// Pieces of one call share a reader. None of what it has read for one is left in another.
TEST(CheckpointLoad, ALargePieceAndThenSmallOnesAreRead) {
  TemporaryFolder folder;
  save_on(3, Cut::kGrid, folder.path(), 7);
  const auto comm = make_self_comm();
  std::vector<TensorShard> pieces;
  std::vector<std::vector<float>> loaded, expected;
  for (const auto& [path, shape, rows, columns] :
       std::vector<std::tuple<std::string, std::vector<int64_t>, Range, Range>>{
           {"/tables/C10/adam_m", {101, 16}, {0, 101}, {0, 16}},
           {"/tables/C10/adam_m", {101, 16}, {30, 40}, {7, 9}},
           {"/tables/C1/adagrad", {37}, {11, 14}, {0, 1}},
           {"/tables/C1/weight", {37, 6}, {5, 5}, {0, 6}},
           {"/tables/C1/weight", {37, 6}, {5, 9}, {2, 2}},
           {"/tables/C1/weight", {37, 6}, {36, 37}, {5, 6}}}) {
    TensorShard piece{path, shape, rows, columns, true, {}, {}};
    loaded.emplace_back(static_cast<size_t>(rows.size() * columns.size()));
    expected.push_back(elements(path, rows, columns));
    piece.write = [&loaded, i = loaded.size() - 1, width = columns.size()](
                      int64_t first, int64_t count, const float* in) {
      std::copy_n(in, count * width, loaded[i].data() + first * width);
    };
    pieces.push_back(piece);
  }
  load_pieces(*comm, folder.path(kFolder), pieces, false);
  EXPECT_EQ(loaded, expected);
}

}  // namespace
}  // namespace dlrm::testing
