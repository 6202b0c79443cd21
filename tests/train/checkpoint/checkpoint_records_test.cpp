#include "train/checkpoint/checkpoint_records.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;

/// Two tensors of two files. The columns of the second half of /a are cut.
CheckpointIndex good_index() {
  CheckpointIndex index;
  index.state.step = 10;
  index.state.samples = 80;
  index.state.epoch = 2;
  index.state.batch = 3;
  index.tensors = {{"/a/weight", {4, 6}}, {"/b/bias", {5}}};
  index.pieces = {{0, {0, 2}, {0, 6}, 0, 100, 7},
                  {0, {2, 4}, {0, 3}, 0, 148, StoredPiece::kNoCrc},
                  {0, {2, 4}, {3, 6}, 1, 10, 0},
                  {1, {0, 5}, {0, 1}, 1, 34, 0xffffffff}};
  index.files = {{200, 1}, {54, 0xffffffff}, {0, 0}};
  return index;
}

TEST(IndexRecords, GiveTheIndexThatWasPacked) {
  CheckpointIndex index = good_index();
  for (const std::vector<std::string>& tuned :
       {std::vector<std::string>{}, {""}, {"1234567"}, {"12345678"}, {"123456789", "", "x"}}) {
    index.state.tuned_algorithms = tuned;
    const IndexRecords records = pack_index(index);
    const CheckpointIndex again = unpack_index(records, "here");
    EXPECT_EQ(again.state.tuned_algorithms, tuned);
    EXPECT_EQ(pack_index(again), records);
    ASSERT_EQ(again.tensors.size(), 2u);
    EXPECT_EQ(again.tensors[0].path, "/a/weight");
    EXPECT_EQ(again.tensors[0].shape, (std::vector<int64_t>{4, 6}));
    EXPECT_EQ(again.tensors[1].path, "/b/bias");
    EXPECT_EQ(again.tensors[1].shape, std::vector<int64_t>{5});
    ASSERT_EQ(again.pieces.size(), 4u);
    EXPECT_EQ(again.pieces[2].rows, (Range{2, 4}));
    EXPECT_EQ(again.pieces[2].columns, (Range{3, 6}));
    EXPECT_EQ(again.pieces[2].rank, 1);
    EXPECT_EQ(again.pieces[2].offset, 10);
    EXPECT_EQ(again.pieces[0].crc32c, 7);
    EXPECT_EQ(again.pieces[3].tensor, 1);
    EXPECT_EQ(again.files[1].bytes, 54);
    EXPECT_EQ(again.files[1].crc32c, 0xffffffff);
  }
}

TEST(IndexRecords, OfOldCheckpointsHaveNoCrcsOfPieces) {
  IndexRecords records = pack_index(good_index());
  records.piece_crcs.reset();
  for (const StoredPiece& piece : unpack_index(records, "here").pieces) {
    EXPECT_EQ(piece.crc32c, StoredPiece::kNoCrc);
  }
}

TEST(IndexRecords, TunedAlgorithmsThatDoNotFitAreLeftOut) {
  IndexRecords records = pack_index(good_index());
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  for (const std::vector<int64_t>& values : std::vector<std::vector<int64_t>>{{},
                                                                              {1},
                                                                              {2, 0},
                                                                              {-1, 0},
                                                                              {kMost, 1},
                                                                              {1, 1},
                                                                              {1, 9, 0},
                                                                              {1, kMost, 0},
                                                                              {1, -1, 0},
                                                                              {1, kMost - 6, 0},
                                                                              {2, 8, 8, 0},
                                                                              {2, 8, 1, 0}}) {
    records.tuned_algorithms = values;
    EXPECT_TRUE(unpack_index(records, "here").state.tuned_algorithms.empty())
        << ::testing::PrintToString(values);
  }
}

template <class Value, class Use>
void expect_errors(const Value& good,
                   const std::vector<std::pair<std::function<void(Value&)>, const char*>>& changes,
                   const Use& use) {
  for (size_t i = 0; i < changes.size(); ++i) {
    Value changed = good;
    changes[i].first(changed);
    const std::string error = run_error_of([&] { use(changed); }), expected = changes[i].second;
    EXPECT_EQ(error.empty(), expected.empty()) << "change " << i << error;
    EXPECT_THAT(error, HasSubstr(expected.empty() ? "" : "here: " + expected)) << "change " << i;
  }
}

TEST(IndexRecords, ListsOfOtherLengthsAreRefused) {
  using R = IndexRecords;
  expect_errors<R>(pack_index(good_index()),
                   {{[](R&) {}, ""},
                    {[](R& r) { r.names.pop_back(); }, "the last name of a tensor has no end"},
                    {[](R& r) { r.names += "/c\n"; }, "/layout/shapes has 6 numbers"},
                    {[](R& r) { r.shapes.pop_back(); },
                     "/layout/shapes has 5 numbers, which is no multiple of 3"},
                    {[](R& r) {
                       r.shapes.insert(r.shapes.end(), {1, 1, 1});
                     },
                     "/layout/shapes has 9 numbers"},
                    {[](R& r) { r.shapes[0] = 3; }, "tensor 0 has 3 dimensions"},
                    {[](R& r) { r.shapes[3] = 0; }, "tensor 1 has 0 dimensions"},
                    {[](R& r) { r.shapes[5] = 2; }, "tensor 1 has 1 dimensions"},
                    {[](R& r) { r.shapes[3] = 2; }, ""},
                    {[](R& r) { r.pieces.pop_back(); }, "/layout/pieces has 27 numbers"},
                    {[](R& r) { r.pieces.resize(21); }, "/layout/piece_crcs has 4 numbers"},
                    {[](R& r) { r.piece_crcs->push_back(1); }, "/layout/piece_crcs has 5 numbers"},
                    {[](R& r) { r.files.pop_back(); }, "/layout/files has 5 numbers"}},
                   [](const R& records) { unpack_index(records, "here"); });
}

TEST(CheckIndex, NumbersThatDoNotBelongTogetherAreRefused) {
  using I = CheckpointIndex;
  const char* const state = "step ";
  const char* const whole = "the pieces of /a/weight do not make up the whole of it";
  expect_errors<I>(
      good_index(),
      {{[](I&) {}, ""},
       {[](I& i) { i.state.step = -1; }, state},
       {[](I& i) { i.state.samples = 9; }, state},
       {[](I& i) { i.state.samples = 10; }, ""},
       {[](I& i) { i.state.samples = 0; }, ""},
       {[](I& i) { i.state.samples = -1; }, state},
       {[](I& i) { i.state.step = i.state.epoch = i.state.batch = 0; }, state},
       {[](I& i) { i.state.step = i.state.epoch = i.state.batch = i.state.samples = 0; }, ""},
       {[](I& i) { i.state.epoch = -1; }, state},
       {[](I& i) { i.state.epoch = 11; }, state},
       {[](I& i) { i.state.epoch = 10; }, ""},
       {[](I& i) { i.state.batch = -1; }, state},
       {[](I& i) { i.state.batch = 11; }, state},
       {[](I& i) { i.state.batch = 10; }, ""},
       {[](I& i) { i.tensors[0].path = ""; }, "tensor 0 has no path"},
       {[](I& i) { i.tensors[0].path = "/"; }, "tensor 0 has no path"},
       {[](I& i) { i.tensors[1].path = "b"; }, "tensor 1 has no path"},
       {[](I& i) { i.tensors[0].path = "/a\n"; }, "tensor 0 has no path"},
       {[](I& i) { i.tensors[0].path = "/a\x7f"; }, "tensor 0 has no path"},
       {[](I& i) { i.tensors[0].path = "/a\x1f"; }, "tensor 0 has no path"},
       {[](I& i) { i.tensors[0].path = "/ \xc3\xa4"; }, ""},
       {[](I& i) { i.tensors[0].path = "/c"; }, "tensor /c comes before /b/bias"},
       {[](I& i) { i.tensors[0].path = "/b/bias"; }, "tensor /b/bias comes before /b/bias"},
       {[](I& i) { i.tensors[0].shape[0] = 0; }, "/a/weight has 0 rows of 6"},
       {[](I& i) { i.tensors[0].shape[1] = 0; }, "/a/weight has 4 rows of 0"},
       {[](I& i) {
          i.tensors[0].shape = {1LL << 60, 2};
        },
        "/a/weight has 1152921504606846976 rows"},
       {[](I& i) { i.tensors[1].shape[0] = 1LL << 61; }, "/b/bias has 2305843009213693952 rows"},
       {[](I& i) { i.tensors[1].shape[0] = 1LL << 60; }, "the pieces of /b/bias do not make up"},
       {[](I& i) { i.pieces[0].rows.begin = -1; }, "a piece of /a/weight lies outside of it"},
       {[](I& i) { i.pieces[2].rows.end = 5; }, "a piece of /a/weight lies outside of it"},
       {[](I& i) { i.pieces[2].columns.end = 7; }, "a piece of /a/weight lies outside of it"},
       {[](I& i) { i.pieces[0].columns.begin = -1; }, "a piece of /a/weight lies outside of it"},
       {[](I& i) { i.pieces[0].rows.end = 0; }, "a piece of /a/weight lies outside of it"},
       {[](I& i) { i.pieces[1].columns.end = 0; }, "a piece of /a/weight lies outside of it"},
       {[](I& i) { std::swap(i.pieces[0], i.pieces[1]); },
        "the pieces of /a/weight are not in order"},
       {[](I& i) { std::swap(i.pieces[1], i.pieces[2]); },
        "the pieces of /a/weight are not in order"},
       {[](I& i) { i.pieces[1] = i.pieces[0]; }, "the pieces of /a/weight are not in order"},
       {[](I& i) { i.pieces[1].rows.begin = 1; }, "pieces of /a/weight overlap"},
       {[](I& i) { i.pieces[1].columns.end = 4; }, "pieces of /a/weight overlap"},
       {[](I& i) { i.pieces[2].columns.begin = 2; }, "pieces of /a/weight overlap"},
       {[](I& i) { i.pieces[0].rows.end = 3; }, "pieces of /a/weight overlap"},
       {[](I& i) { i.pieces[2].columns.begin = 4; }, whole},
       {[](I& i) { i.pieces[0].rows.begin = 1; }, whole},
       {[](I& i) { i.pieces.erase(i.pieces.begin() + 1); }, whole},
       {[](I& i) { i.pieces[0].rank = -1; }, "a piece of /a/weight is in file -1 of 3"},
       {[](I& i) { i.pieces[3].rank = 3; }, "a piece of /b/bias is in file 3 of 3"},
       {[](I& i) { i.pieces[0].offset = -1; }, "a piece of /a/weight lies outside of its file"},
       {[](I& i) { i.pieces[0].offset = 201; }, "a piece of /a/weight lies outside of its file"},
       {[](I& i) { i.pieces[0].offset = INT64_MAX; }, "a piece of /a/weight lies outside of its"},
       {[](I& i) { i.files[1].bytes = 53; }, "a piece of /b/bias lies outside of its file"},
       {[](I& i) { i.files[0].bytes = 172; }, ""},
       {[](I& i) { i.files[0].bytes = 171; }, "a piece of /a/weight lies outside of its file"},
       {[](I& i) { i.pieces[0].crc32c = -2; }, "-2 is no CRC32C of a piece of /a/weight"},
       {[](I& i) { i.pieces[3].crc32c = 1LL << 32; }, "4294967296 is no CRC32C of a piece of /b"},
       {[](I& i) { i.files[2].bytes = -1; }, "a file has -1 bytes and CRC32C 0"},
       {[](I& i) { i.files[2].crc32c = -1; }, "a file has 0 bytes and CRC32C -1"},
       {[](I& i) { i.files[1].crc32c = 1LL << 32; }, "a file has 54 bytes and CRC32C 4294967296"},
       {[](I& i) { i.pieces[1].offset = 147; },
        "pieces of /a/weight and /a/weight overlap in their"},
       {[](I& i) { i.pieces[3].offset = 33; }, "pieces of /a/weight and /b/bias overlap in their"},
       {[](I& i) { i.pieces[2].offset = 11; }, "pieces of /a/weight and /b/bias overlap in their"},
       {[](I& i) { i.pieces[3].rank = 0, i.pieces[3].offset = 172; }, ""},
       {[](I& i) {
          i.pieces.push_back({2, {0, 1}, {0, 1}, 0, 0, 0});
        },
        "a piece belongs to tensor 2 of 2"}},
      [](const I& index) { check_index(index, "here"); });
}

}  // namespace
}  // namespace dlrm
