// Bad values of each column at each record of a dataset, in turn.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "dlrm/core/file.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/hdf5/file.h"

#include "dataset_fixture.h"

namespace dlrm {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Two files with all kinds of columns, whose values tests change in place.
class BadValues : public ::testing::Test {
 protected:
  static constexpr int64_t kFirst = 25, kSamples = 40;  // of the first file, and of both

  BadValues() {
    data_.weighted = true;
    data_.label = LabelType::kFloat32;
    for (size_t f = 0; f < 2; ++f) {
      data_.first = f == 0 ? 0 : kFirst;
      data_.samples = f == 0 ? kFirst : kSamples - kFirst;
      data_.write(paths_[f]);
      const hdf5::File file = hdf5::File::open(paths_[f]);
      for (const char* column : {"/label", "/weight", "/dense", "/sparse/one/ids",
                                 "/sparse/three/ids", "/sparse/bags/ids"}) {
        offsets_[f][column] = file.dataset(column).storage().offset;
      }
      files_.emplace_back(paths_[f], File::Mode::kReadWrite);
    }
  }

  RunConfig config(int64_t batch) const {
    RunConfig config = data_.config(paths_[0], batch);
    config.data.train.push_back(paths_[1]);
    config.data.verify = false;
    return config;
  }

  /// Value `k` of a sample of both files. Returns what was there.
  template <class T>
  T exchange(const std::string& column, int64_t sample, int64_t k, T value) {
    const size_t f = sample < kFirst ? 0 : 1;
    const int64_t first = f == 0 ? 0 : kFirst;
    int64_t index = sample - first;
    if (column == "/dense") index *= 2;
    if (column == "/sparse/three/ids") index *= 3;
    if (column == "/sparse/bags/ids") {
      index = 0;
      for (int64_t s = first; s < sample; ++s) index += s % 4;
    }
    const int64_t offset = offsets_[f][column] + (index + k) * static_cast<int64_t>(sizeof(T));
    T before;
    files_[f].read(&before, sizeof(T), offset);
    files_[f].write(&value, sizeof(T), offset);
    return before;
  }

  std::string record(int64_t sample) const {
    const bool second = sample >= kFirst;
    return fmt::format("{}: record {} (counted from 0)", paths_[second ? 1 : 0],
                       second ? sample - kFirst : sample);
  }

  TemporaryFolder folder_;
  const std::vector<std::string> paths_{folder_ / "a.h5", folder_ / "b.h5"};
  SmallDataset data_;
  std::vector<File> files_;
  std::map<std::string, int64_t> offsets_[2];
};

TEST_F(BadValues, OfEachColumnNameTheirRecordOnTheRankThatReadsIt) {
  for (const bool shuffle : {false, true}) {
    RunConfig config = this->config(kSamples);
    config.data.shuffle = shuffle;
    std::vector<std::unique_ptr<BatchSource>> ranks;
    for (const int rank : {0, 1}) {
      ranks.push_back(make_batch_source(config, Split::kTrain, rank, 2));
    }
    Batch batch;
    const auto errors = [&] {
      std::vector<std::string> errors;
      for (const auto& source : ranks) {
        const std::string error = usage_error_of([&] { source->load(0, batch); });
        if (!error.empty()) errors.push_back(error);
      }
      return errors;
    };
    const auto expect = [&](const std::string& column, int64_t sample, int64_t k, auto value,
                            const std::string& text) {
      const auto before = exchange(column, sample, k, value);
      EXPECT_EQ(errors(), std::vector<std::string>{record(sample) + text}) << column;
      exchange(column, sample, k, before);
    };
    const auto id = [](const std::string& feature, int64_t value, int64_t rows) {
      return fmt::format(
          ", feature {}: id {} is not in [0, {}) (data.invalid_id: drop leaves such ids out)",
          feature, value, rows);
    };
    EXPECT_TRUE(errors().empty());
    for (int64_t s = 0; s < kSamples; ++s) {
      expect("/label", s, 0, 1.5f, ": label 1.5; labels are 0, 1 or between");
      expect("/weight", s, 0, -2.0f, ": weight -2; a weight is a finite number of at least 0");
      for (int64_t c = 0; c < 2; ++c) {
        expect("/dense", s, c, -kInfinity,
               fmt::format(", column {} of /dense: -inf is not a finite number", c));
      }
      expect("/sparse/one/ids", s, 0, int32_t{50}, id("one", 50, 50));
      for (int64_t k = 0; k < 3; ++k) {
        const int64_t wide = (int64_t{1} << 40) + k;
        expect("/sparse/three/ids", s, k, wide, id("three", wide, 70));
      }
      for (int64_t k = 0; k < s % 4; ++k) {
        expect("/sparse/bags/ids", s, k, int32_t{-7}, id("bags", -7, 30));
      }
    }
    EXPECT_TRUE(errors().empty());
  }
}

TEST_F(BadValues, EveryFiniteNumberIsGoodAndNoOther) {
  RunConfig config = this->config(kSamples);
  config.data.shuffle = false;
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  Batch batch;
  const float tiny = std::numeric_limits<float>::denorm_min();
  for (const float value : {kLargest, -kLargest, tiny, -tiny, -0.0f, 0.0f}) {
    exchange("/dense", 30, 1, value);
    exchange("/weight", 30, 0, std::abs(value));
    exchange("/label", 30, 0, std::min(std::abs(value), 1.0f));
    source->load(0, batch);
    EXPECT_EQ(std::memcmp(&batch.dense[61], &value, 4), 0);
    EXPECT_EQ(batch.weights[30], std::abs(value));
    EXPECT_EQ(batch.labels[30], std::min(std::abs(value), 1.0f));
  }
  // The infinities, and the first and last bits of a NaN of each sign.
  for (const uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f800001u, 0xff800001u, 0x7fc00000u,
                              0x7fffffffu, 0xffffffffu}) {
    float value = 0;
    std::memcpy(&value, &bits, 4);
    exchange("/dense", 30, 1, bits);
    EXPECT_EQ(usage_error_of([&] { source->load(0, batch); }),
              record(30) + fmt::format(", column 1 of /dense: {} is not a finite number", value));
    exchange("/dense", 30, 1, 0.0f);
    exchange("/weight", 30, 0, bits);
    EXPECT_EQ(
        usage_error_of([&] { source->load(0, batch); }),
        record(30) + fmt::format(": weight {}; a weight is a finite number of at least 0", value));
    exchange("/weight", 30, 0, 0.0f);
  }
  exchange("/weight", 30, 0, -tiny);
  EXPECT_NE(usage_error_of([&] { source->load(0, batch); }).find("weight -1e-45"),
            std::string::npos);
  exchange("/weight", 30, 0, 0.0f);
  for (const float label : {-0.5f, -tiny, std::nextafter(1.0f, 2.0f), NAN}) {
    exchange("/label", 30, 0, label);
    EXPECT_EQ(usage_error_of([&] { source->load(0, batch); }),
              record(30) + fmt::format(": label {}; labels are 0, 1 or between", label));
  }
}

/// Any number of bad ids in any bags, in batches that get shorter.
TEST_F(BadValues, IdsThatAreLeftOutLeaveTheOthersInTheirBags) {
  RunConfig config = this->config(16);
  config.data.invalid_id = InvalidId::kDrop;
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  std::mt19937 random(1);
  Batch batch;
  for (const unsigned every : {1u, 2u, 9u, 50u, 1u << 30}) {  // one of so many ids is bad
    std::set<std::tuple<size_t, int64_t, int64_t>> bad;       // feature, sample, place in its bag
    std::vector<std::function<void()>> restore;
    const auto spoil = [&](size_t feature, const std::string& column, int64_t s, int64_t k,
                           auto value) {
      if (random() % every != 0) return;
      bad.insert({feature, s, k});
      const auto before = exchange(column, s, k, value);
      restore.push_back([=, this] { exchange(column, s, k, before); });
    };
    for (int64_t s = 0; s < kSamples; ++s) {
      for (int64_t k = 0; k < s % 4; ++k) spoil(0, "/sparse/bags/ids", s, k, int32_t{30});
      spoil(1, "/sparse/one/ids", s, 0, int32_t{-1});
      for (int64_t k = 0; k < 3; ++k) spoil(2, "/sparse/three/ids", s, k, int64_t{70});
    }
    for (int64_t t = 0; t < 6; ++t) {
      source->load(t, batch);
      std::vector<int64_t> ids, offsets{0};
      int64_t dropped = 0;
      for (size_t feature = 0; feature < 3; ++feature) {
        for (int64_t i = 0; i < batch.size(); ++i) {
          const auto s = static_cast<int64_t>(batch.dense[2 * static_cast<size_t>(i)]);
          const int64_t count = feature == 0 ? s % 4 : feature == 1 ? 1 : 3;
          for (int64_t k = 0; k < count; ++k) {
            if (bad.count({feature, s, k}) > 0) {
              ++dropped;
            } else {
              ids.push_back(feature == 0 ? (s + k) % 30 : feature == 1 ? s % 50 : (s * 3 + k) % 70);
            }
          }
          offsets.push_back(static_cast<int64_t>(ids.size()));
        }
      }
      EXPECT_EQ(batch.ids, ids);
      EXPECT_EQ(batch.offsets, offsets);
      EXPECT_EQ(batch.dropped, dropped);
    }
    for (const auto& undo : restore) undo();
  }
}

}  // namespace
}  // namespace dlrm
