// An index whose CRC is right and whose contents are wrong: what a defect, or a hand, may write.
#include "train/checkpoint/checkpoint_index.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"

#include "error_of.h"
#include "train/checkpoint/checkpoint_files.h"
#include "train/checkpoint/checkpoint_verify.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kCrcs = "/layout/piece_crcs";

/// index.h5 field by field, without the virtual datasets, which the loader does not read.
struct Fields {
  std::map<std::string, int64_t> integers;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<int64_t>> lists;

  static Fields read(const std::string& folder) {
    const hdf5::File file = hdf5::File::open(folder + "/index.h5");
    Fields f;
    for (const char* name : {"version", "step", "samples", "epoch", "batch"}) {
      f.integers[name] = file.integer(name).value();
    }
    for (const char* name : {"format", "config", "plan", "tensors"}) {
      f.texts[name] = file.text(name).value();
    }
    for (const char* name :
         {"/layout/shapes", "/layout/pieces", kCrcs, "/layout/files", "/layout/choices"}) {
      f.lists[name] = file.dataset(name).read<int64_t>();
    }
    return f;
  }

  void write(const std::string& folder) const {
    const std::string path = folder + "/index.h5";
    hdf5::File file = create_checkpoint_file(path);
    for (const auto& [name, value] : integers) file.set_integer(name, value);
    file.set_unsigned_integer("seed", 5);
    for (const auto& [name, value] : texts) file.set_text(name, value);
    for (const auto& [name, values] : lists) {
      file.create_dataset(name, hdf5::Type::kInt64, {static_cast<int64_t>(values.size())})
          .write(View<const int64_t>(values));
    }
    file.close();
    std::ofstream(folder + "/index.crc")
        << fmt::format("crc32c {:08x} bytes {}\n", crc32c_of_file(path), fs::file_size(path));
  }
};

class CheckpointIndexTest : public ::testing::Test {
 protected:
  CheckpointIndexTest() {
    save_on(2, Cut::kRows, folder_.path(), 20);
    good_ = Fields::read(saved());
    good_.texts["config"] = "train: {seed: 5}\n";
  }
  std::string saved() const { return folder_.path("step_000000020"); }

  /// The error of verifying and loading. Empty if that gives exactly what was saved. What a check
  /// finds is no usage_error, so that an older checkpoint is taken.
  std::string outcome(const Fields& fields) const {
    fields.write(saved());
    ExitCode code = ExitCode::kFailure;
    try {
      const auto comm = make_self_comm();
      const CheckpointIndex index = verify_checkpoint(*comm, saved(), Verify::kContents);
      code = ExitCode::kUsage;
      const auto held = held_pieces(0, 1, Cut::kRows, false);
      load_pieces(*comm, saved(), pieces_of(held), false);
      return wrong_elements(held) == 0 && index.state.step == 20 ? "" : "other weights";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
  }
  /// Checks that what has changed is refused, or changes nothing. Counts what is refused.
  void expect_no_other_weights(const Fields& fields, const std::string& what) {
    const std::string error = outcome(fields);
    EXPECT_NE(error, "other weights") << what;
    refused_ += error.empty() ? 0 : 1;
    ++tried_;
  }
  void try_all(const Fields& good);

  TemporaryFolder folder_;
  Fields good_;
  int refused_ = 0, tried_ = 0;
};

std::vector<int64_t> others(int64_t value) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> all = {
      value + 1, value - 1, value + 4, 0,     -1,
      2 * value, -value,    1LL << 40, kMost, std::numeric_limits<int64_t>::min()};
  std::erase(all, value);
  return all;
}

void CheckpointIndexTest::try_all(const Fields& good) {
  for (const auto& [name, value] : good.integers) {
    for (const int64_t other : others(value)) {
      Fields changed = good;
      changed.integers[name] = other;
      expect_no_other_weights(changed, fmt::format("{} = {}", name, other));
    }
    Fields without = good;
    without.integers.erase(name);
    expect_no_other_weights(without, "no " + name);
  }
  for (const auto& [name, values] : good.lists) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (const int64_t other : others(values[i])) {
        Fields changed = good;
        changed.lists[name][i] = other;
        expect_no_other_weights(changed, fmt::format("{}[{}] = {}", name, i, other));
      }
      Fields swapped = good;
      auto& list = swapped.lists[name];
      std::swap(list[i], list[(i + 7) % list.size()]);  // often of the next record
      expect_no_other_weights(swapped, fmt::format("{}[{}] swapped", name, i));
    }
    for (const size_t size : {size_t{0}, values.size() - 1, values.size() + 1, size_t{7}}) {
      Fields changed = good;
      changed.lists[name].resize(size);
      expect_no_other_weights(changed, fmt::format("{} of {} numbers", name, size));
    }
    Fields without = good;
    without.lists.erase(name);
    expect_no_other_weights(without, "no " + name);
  }
  const std::string& names = good.texts.at("tensors");
  for (const std::string& other : {std::string(), names + names, names.substr(1),
                                   names.substr(names.find('\n') + 1), names + "/zzz\n"}) {
    Fields changed = good;
    changed.texts["tensors"] = other;
    expect_no_other_weights(changed, "tensors = " + other);
  }
}

TEST_F(CheckpointIndexTest, NoChangedFieldGivesOtherWeights) {
  ASSERT_EQ(outcome(good_), "");
  try_all(good_);
  EXPECT_GT(refused_, tried_ * 3 / 4);
}

TEST_F(CheckpointIndexTest, AnotherFormatOrVersionIsRefused) {
  Fields other = good_;
  other.integers["version"] = 2;
  EXPECT_THAT(outcome(other), HasSubstr("format \"dlrm-checkpoint\" version 2, this program reads "
                                        "\"dlrm-checkpoint\" version 1"));
  other = good_;
  other.texts["format"] = "dlrm-checkpoint-part";
  EXPECT_THAT(outcome(other), HasSubstr("format \"dlrm-checkpoint-part\" version 1, this program"));
}

TEST_F(CheckpointIndexTest, AMissingFieldIsNamed) {
  for (const auto& [name, value] : good_.integers) {
    Fields without = good_;
    without.integers.erase(name);
    EXPECT_THAT(outcome(without), EndsWith("/index.h5: has no valid attribute " + name));
  }
  for (const auto& [name, value] : good_.texts) {
    Fields without = good_;
    without.texts.erase(name);
    EXPECT_THAT(outcome(without), EndsWith("/index.h5: has no valid attribute " + name));
  }
}

TEST_F(CheckpointIndexTest, NamesThatAreNoPrintableLinesAreRefused) {
  const std::string names = good_.texts.at("tensors");
  const std::map<std::string, std::string> wrong = {
      {names + "x", "the last name of a tensor has no end"},
      {"/\x1b" + names.substr(1), "tensor 0 has no path"}};
  for (const auto& [text, error] : wrong) {
    Fields changed = good_;
    changed.texts["tensors"] = text;
    EXPECT_THAT(outcome(changed), HasSubstr(error));
  }
}

TEST_F(CheckpointIndexTest, ThePiecesOfTwoTensorsOfOneSizeAreToldApart) {
  for (const bool with_crcs : {true, false}) {
    Fields swapped = good_;
    if (!with_crcs) swapped.lists.erase(kCrcs);
    // Swaps the places of two pieces of the same size in one file.
    auto& pieces = swapped.lists["/layout/pieces"];
    bool done = false;
    for (size_t a = 0; a < pieces.size() && !done; a += 7) {
      for (size_t b = a + 7; b < pieces.size() && !done; b += 7) {
        const auto bytes = [&](size_t p) {
          return (pieces[p + 2] - pieces[p + 1]) * (pieces[p + 4] - pieces[p + 3]);
        };
        if (bytes(a) != bytes(b) || pieces[a + 5] != pieces[b + 5]) continue;
        std::swap(pieces[a + 6], pieces[b + 6]);
        done = true;
      }
    }
    ASSERT_TRUE(done);
    EXPECT_THAT(outcome(swapped), HasSubstr(with_crcs ? "not those of index.h5" : "does not lie"));
  }
}

TEST(CheckpointPlaces, ADatasetOfAnotherSizeIsNoPieceOfAnOldCheckpoint) {
  for (const int64_t stored : {2, 3}) {
    TemporaryFolder folder;
    const std::string path = folder.path(rank_file_name(0));
    hdf5::File file = create_checkpoint_file(path);
    const int64_t offset =
        file.create_dataset(piece_name("/a", {0, 2}, {0, 1}), hdf5::Type::kFloat32, {stored})
            .storage()
            .offset;
    CheckpointIndex index;
    index.tensors = {{"/a", {2}}};
    index.pieces = {{0, {0, 2}, {0, 1}, 0, offset, StoredPiece::kNoCrc}};
    file.close();
    index.files = {{static_cast<int64_t>(fs::file_size(path)), crc32c_of_file(path)}};
    write_index(folder.path(), index);
    const auto comm = make_self_comm();
    const std::string error = error_of([&] { open_checkpoint(*comm, folder.path()); });
    EXPECT_THAT(error, HasSubstr(stored == 2 ? "" : "a piece of /a does not lie where index.h5"));
    EXPECT_EQ(error.empty(), stored == 2);
  }
}

/// Puts `value` in the place of an element of the saved checkpoint, with all CRCs right.
void spoil(const std::string& folder, const std::string& tensor, int64_t row, float value,
           bool with_piece_crcs) {
  CheckpointIndex index = read_index(folder);
  for (StoredPiece& piece : index.pieces) {
    if (index.tensors[static_cast<size_t>(piece.tensor)].path != tensor) continue;
    if (row < piece.rows.begin || row >= piece.rows.end) continue;
    const std::string path = folder + "/" + rank_file_name(static_cast<int>(piece.rank));
    File file(path, File::Mode::kReadWrite);
    const int64_t width = piece.columns.size();
    file.write(&value, sizeof value,
               piece.offset + ((row - piece.rows.begin) * width + width - 1) * 4);
    std::vector<char> bytes(static_cast<size_t>(piece.bytes()));
    file.read(bytes.data(), bytes.size(), piece.offset);
    Crc32c crc;
    crc.add(bytes.data(), bytes.size());
    piece.crc32c = crc.value();
    index.files[static_cast<size_t>(piece.rank)].crc32c = crc32c_of_file(path);
  }
  if (!with_piece_crcs) {
    for (StoredPiece& piece : index.pieces) piece.crc32c = StoredPiece::kNoCrc;
  }
  write_index(folder, index);
}

TEST(CheckpointValues, ACheckpointThatIsNotFiniteIsPassedOverAndItsRowNamed) {
  for (const bool with_crcs : {true, false}) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      TemporaryFolder folder;
      save_on(2, Cut::kRows, folder.path(), 10);
      save_on(2, Cut::kRows, folder.path(), 20);
      const std::string newer = folder.path("step_000000020");
      spoil(newer, "/tables/C10/adam_m", 77, value, with_crcs);
      const auto comm = make_self_comm();
      EXPECT_EQ(find_checkpoint(*comm, folder.path()), folder.path("step_000000010"));
      EXPECT_THAT(usage_error_of([&] { find_checkpoint(*comm, newer); }),
                  AllOf(HasSubstr("rank_00001.h5"),
                        HasSubstr("/tables/C10/adam_m is not finite in row 77")));
    }
  }
}

TEST(CheckpointValues, OfSeveralFaultsOfAFileTheFirstIsNamed) {
  const auto comm = make_self_comm();
  TemporaryFolder folder;
  save_on(1, Cut::kRows, folder.path(), 10);
  const std::string saved = folder.path("step_000000010");
  std::string first;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const char* tensor : {"/mlp/bottom/0/weight", "/tables/C10/adam_m", "/tables/C1/weight"}) {
    spoil(saved, tensor, 3, std::nanf(""), true);
    const CheckpointIndex index = read_index(saved);
    for (const StoredPiece& piece : index.pieces) {
      if (index.tensors[static_cast<size_t>(piece.tensor)].path != tensor) continue;
      if (piece.offset < least) first = tensor;
      least = std::min(least, piece.offset);
    }
  }
  EXPECT_EQ(error_of([&] { open_checkpoint(*comm, saved); }),
            saved + "/rank_00000.h5: " + first + " is not finite in row 3");
}

TEST(CheckpointValues, WhatIsNotFiniteIsNotSavedAndTheOlderOneStays) {
  TemporaryFolder folder;
  save_on(3, Cut::kRows, folder.path(), 10, 1);
  run_on_threads(3, [&](Communicator& comm) {
    const auto held = held_pieces(comm.rank(), 3, Cut::kRows, true);
    for (const int rank : {1, 2}) {
      if (comm.rank() != rank) continue;
      held[4].values->back() = std::numeric_limits<float>::infinity();
      held[6].values->front() = std::nanf("");
    }
    try {
      save_checkpoint(comm, Log(comm.rank()), folder.path(), 1, state_at(20), pieces_of(held));
      ADD_FAILURE() << "saved";
    } catch (const NotFinite& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("step 20"), HasSubstr("/tables/C1/adagrad, row 23"),
                                      HasSubstr("rank 1")));
    }
  });
  const auto comm = make_self_comm();
  EXPECT_EQ(find_checkpoint(*comm, folder.path()), folder.path("step_000000010"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace dlrm::testing
