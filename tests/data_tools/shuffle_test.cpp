#include "shuffle.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"
#include "dlrm/core/file_lock.h"
#include "dlrm/core/random.h"
#include "dlrm/data/dataset_file.h"

#include "data/dataset_fixture.h"
#include "data/dataset_layout.h"
#include "data_command.h"
#include "inspect.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A small dataset, and its shuffle with so little memory that it takes several buckets.
class Shuffled : public ::testing::Test {
 protected:
  static constexpr int64_t kSamples = 3000;

  Shuffled() {
    data_.samples = kSamples;
    data_.weighted = true;
    data_.id_weights = true;
    data_.write(in_, kSamples);
  }

  ShuffleOptions options(double memory = 0x1.8p16) const {
    ShuffleOptions options;
    options.inputs = {in_};
    options.output = out_;
    options.memory = memory;
    options.threads = 2;
    return options;
  }

  /// The numbers of the samples in the order of their random keys.
  static std::vector<int64_t> expected(uint64_t seed, int64_t samples) {
    std::vector<std::pair<uint64_t, int64_t>> keys;
    for (int64_t i = 0; i < samples; ++i) {
      const auto words = philox(stream_key(seed, "shuffle"), {static_cast<uint32_t>(i), 0, 0, 0});
      keys.emplace_back(static_cast<uint64_t>(words[1]) << 32 | words[0], i);
    }
    std::sort(keys.begin(), keys.end());
    std::vector<int64_t> order;
    for (const auto& key : keys) order.push_back(key.second);
    return order;
  }

  /// Dense value 0 of each sample is its number.
  static std::vector<int64_t> order_of(const DatasetFile& file) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < file.samples(); ++i) {
      float value;
      std::memcpy(&value, file.dense() + i * file.dense_width() * 4, 4);
      order.push_back(static_cast<int64_t>(value));
    }
    return order;
  }

  /// The samples' files in the given order, written by a DatasetWriter that knows no sizes.
  std::string in_order(const std::vector<int64_t>& order) const {
    const std::string path = folder_ / "expected.h5";
    DatasetLayout layout = data_.layout();
    DatasetWriter writer(path, layout);
    for (const int64_t i : order) data_.append(writer, i - data_.first, i - data_.first + 1);
    writer.finish();
    return path;
  }

  static void expect_same_samples(const std::string& a, const std::string& b) {
    const DatasetFile one(a), two(b);
    std::vector<size_t> features(one.features().size());
    std::iota(features.begin(), features.end(), size_t{0});
    for (int64_t block = 0; block < one.blocks(); ++block) one.verify(block, features);
    ASSERT_EQ(one.samples(), two.samples());
    const auto equal = [](const std::byte* x, const std::byte* y, int64_t bytes) {
      return std::equal(x, x + bytes, y);
    };
    EXPECT_EQ(one.label_type(), two.label_type());
    ASSERT_EQ(one.num_labels(), two.num_labels());
    EXPECT_TRUE(equal(one.labels(), two.labels(), one.samples() * one.label_bytes()));
    ASSERT_EQ(one.weighted(), two.weighted());
    const int64_t weight_bytes = one.weighted() ? one.samples() * 4 : 0;
    EXPECT_TRUE(equal(one.weights(), two.weights(), weight_bytes));
    EXPECT_TRUE(equal(one.dense(), two.dense(), one.samples() * one.dense_width() * 4));
    ASSERT_EQ(one.features().size(), two.features().size());
    for (size_t f = 0; f < one.features().size(); ++f) {
      const MappedFeature &x = one.features()[f], &y = two.features()[f];
      EXPECT_EQ(x.name, y.name);
      EXPECT_EQ(x.rows, y.rows);
      ASSERT_EQ(x.count, y.count);
      EXPECT_TRUE(equal(x.ids, y.ids, x.count * bytes_of(x.type))) << x.name;
      ASSERT_EQ(x.weighted, y.weighted);
      EXPECT_TRUE(equal(x.weights, y.weights, x.weighted ? x.count * 4 : 0)) << x.name;
      EXPECT_EQ(x.offsets != nullptr, y.offsets != nullptr);
      if (x.offsets == nullptr) continue;
      EXPECT_TRUE(equal(x.offsets, y.offsets, one.samples() * 8 + 8)) << x.name;
    }
  }

  /// The text of the error that a shuffle ends with.
  static std::string failure(const ShuffleOptions& options, ExitCode code) {
    const std::string error = error_of([&] { shuffle_dataset(options); }, code);
    EXPECT_EQ(error.find('\n'), std::string::npos);
    return error;
  }

  /// Ends a shuffle after its first pass.
  void interrupt(const ShuffleOptions& options) {
    fs::create_directories(out_ + ".shuffle");
    const FileLock other(work("shuffled.h5"));
    EXPECT_THAT(failure(options, ExitCode::kUsage), HasSubstr("is being written"));
  }
  std::string work(const std::string& name) const { return out_ + ".shuffle/" + name; }

  /// Changes a byte of a file, which keeps its time.
  static void flip(const std::string& path, int64_t at) {
    const auto time = fs::last_write_time(path);
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const auto byte = static_cast<char>(file.get() ^ 1);
      file.seekp(at);
      file.put(byte);
    }
    fs::last_write_time(path, time);
  }

  TemporaryFolder folder_;
  SmallDataset data_;
  std::string in_ = folder_ / "in.h5", out_ = folder_ / "out.h5";
};

TEST_F(Shuffled, IsInTheOrderOfRandomKeysForAnyMemoryAndThreads) {
  const ShuffleReport one = shuffle_dataset(options(0x1p30));
  EXPECT_EQ(one.buckets, 1);
  const std::vector<int64_t> order = expected(1, kSamples);
  expect_same_samples(out_, in_order(order));
  const std::string bytes = bytes_of_file(out_);
  ShuffleOptions other = options();
  other.threads = 3;
  const ShuffleReport many = shuffle_dataset(other);
  EXPECT_GT(many.buckets, 4);
  EXPECT_TRUE(bytes_of_file(out_) == bytes);
  EXPECT_EQ(many.sum_high, one.sum_high);
  EXPECT_EQ(many.sum_low, one.sum_low);
  EXPECT_NE(one.sum_low, 0u);
  EXPECT_EQ(many.samples, kSamples);
  EXPECT_FALSE(fs::exists(out_ + ".shuffle"));
  other.seed = 2;
  shuffle_dataset(other);
  EXPECT_EQ(order_of(DatasetFile(out_)), expected(2, kSamples));
}

TEST_F(Shuffled, TakesSeveralInputsAndFolders) {
  const std::string more = folder_ / "more";
  fs::create_directory(more);
  SmallDataset second = data_;
  second.first = kSamples;
  second.samples = 700;
  second.rows_bags = 90;  // the largest counts
  second.write(more + "/a.h5");
  ShuffleOptions both = options(0x1p18);
  both.inputs = {in_, more};
  shuffle_dataset(both);
  const DatasetFile file(out_);
  EXPECT_EQ(order_of(file), expected(1, kSamples + 700));
  EXPECT_EQ(file.find("bags")->rows, 90);
}

TEST_F(Shuffled, KeepsDatasetsWithoutSamplesDenseFeaturesOrBags) {
  SmallDataset none = data_;
  none.dense = 0;
  none.label = LabelType::kFloat32;
  for (const int64_t samples : {0, 1, 50}) {
    none.samples = samples;
    none.write(in_);
    EXPECT_EQ(shuffle_dataset(options()).samples, samples);
    EXPECT_EQ(DatasetFile(out_).samples(), samples);
  }
  DatasetLayout labels;
  labels.label = LabelType::kFloat32;
  {
    DatasetWriter writer(in_, labels);
    const std::vector<float> values{0, 0.25f, 0.5f, 1};
    writer.append({4, values, {}, {}});
    writer.finish();
  }
  shuffle_dataset(options());
  const DatasetFile file(out_);
  const std::vector<int64_t> order = expected(1, 4);
  const float values[] = {0, 0.25f, 0.5f, 1};
  for (size_t i = 0; i < 4; ++i) {
    float label;
    std::memcpy(&label, file.labels() + 4 * i, 4);
    EXPECT_EQ(label, values[order[i]]);
  }
}

TEST_F(Shuffled, KeepsSeveralLabelsBesideWeightsOfIds) {
  for (const LabelType type : {LabelType::kFloat32, LabelType::kUint8}) {
    data_.label = type;
    data_.labels = 3;
    data_.write(in_, kSamples);
    shuffle_dataset(options());
    EXPECT_EQ(DatasetFile(out_).num_labels(), 3);
    expect_same_samples(out_, in_order(expected(1, kSamples)));
    const Inspection before = inspect_dataset(in_), after = inspect_dataset(out_);
    for (size_t l = 0; l < 3; ++l) {
      EXPECT_EQ(after.labels[l].mean, before.labels[l].mean);
      EXPECT_EQ(after.labels[l].missing, before.labels[l].missing);
    }
    EXPECT_EQ(after.labels[1].missing, type == LabelType::kFloat32 ? kSamples / 3 : 0);
    ASSERT_EQ(after.features.size(), 3u);
    EXPECT_TRUE(after.features[2].weighted);
    EXPECT_EQ(after.features[2].weight_max, before.features[2].weight_max);
  }
}

TEST_F(Shuffled, KeepsThePreprocessing) {
  data_.preprocessing = "how it was made";
  data_.write(in_, kSamples);
  shuffle_dataset(options());
  EXPECT_EQ(DatasetFile(out_).preprocessing(), "how it was made");
}

TEST_F(Shuffled, ContinuesInTheFirstPass) {
  ShuffleOptions saving = options(0x1p20);
  saving.save_every = 1 << 20;
  data_.samples = 2 * kChecksumSamples + 500;
  data_.write(in_, data_.samples);
  const DatasetFile file(in_);
  const std::string whole = bytes_of_file(in_);
  const std::string column(reinterpret_cast<const char*>(file.dense()), 4096);
  const auto at = static_cast<int64_t>(whole.find(column)) + (2 * kChecksumSamples + 9) * 8;
  flip(in_, at);
  EXPECT_THAT(failure(saving, ExitCode::kUsage), HasSubstr("damaged in samples 32768"));
  flip(in_, at);
  // No more of the disk is reserved than the samples take.
  EXPECT_LT(fs::file_size(work("samples")), 2 * fs::file_size(in_));
  const ShuffleReport report = shuffle_dataset(saving);
  EXPECT_GE(report.resumed_at, kChecksumSamples);
  EXPECT_LT(report.resumed_at, data_.samples);
  EXPECT_EQ(order_of(DatasetFile(out_)), expected(1, data_.samples));
}

TEST_F(Shuffled, ASecondShuffleToAnOutputIsRefused) {
  const FileLock other(out_);
  EXPECT_THAT(failure(options(), ExitCode::kUsage), HasSubstr("is being written"));
  EXPECT_FALSE(fs::exists(out_ + ".shuffle"));
}

TEST_F(Shuffled, ContinuesAfterTheFirstPass) {
  interrupt(options());
  EXPECT_EQ(shuffle_dataset(options()).resumed_at, kSamples);
  EXPECT_EQ(order_of(DatasetFile(out_)), expected(1, kSamples));
}

TEST_F(Shuffled, StartsAgainForAnotherTaskOrADamagedState) {
  interrupt(options());
  ShuffleOptions other = options();
  other.seed = 7;
  EXPECT_EQ(shuffle_dataset(other).resumed_at, 0);
  EXPECT_EQ(order_of(DatasetFile(out_)), expected(7, kSamples));
  interrupt(options());
  flip(work("state"), 5);
  EXPECT_EQ(shuffle_dataset(options()).resumed_at, 0);
  interrupt(options());
  fs::last_write_time(in_, fs::last_write_time(in_) + std::chrono::seconds(1));
  EXPECT_EQ(shuffle_dataset(options()).resumed_at, 0);
  EXPECT_EQ(order_of(DatasetFile(out_)), expected(1, kSamples));
}

TEST_F(Shuffled, IsRefusedIfItsSamplesAreNotThoseOfTheInputs) {
  shuffle_dataset(options());
  const std::string before = bytes_of_file(out_);
  // Of the first sample, after its key: label, weight, a dense value, the number of ids of its bag
  // by 1 and by 2^24, and an id.
  for (const int64_t at : {8, 10, 14, 21, 24, 40}) {
    interrupt(options());
    flip(work("samples"), at);
    EXPECT_THAT(failure(options(), ExitCode::kFailure), HasSubstr("memory or a disk is faulty"))
        << at;
    EXPECT_FALSE(fs::exists(work("shuffled.h5")));
  }
  EXPECT_TRUE(bytes_of_file(out_) == before);
  EXPECT_EQ(shuffle_dataset(options()).resumed_at, 0);
  EXPECT_TRUE(bytes_of_file(out_) == before);
}

TEST_F(Shuffled, GetsItsNameIfAnEarlierProcessHadVerifiedIt) {
  interrupt(options());
  write_file(work("shuffled.h5"), "whole");
  EXPECT_EQ(shuffle_dataset(options()).resumed_at, kSamples);
  EXPECT_EQ(bytes_of_file(out_), "whole");
}

TEST_F(Shuffled, LeavesTheOutputIfTheDiskIsFull) {
  shuffle_dataset(options());
  const std::string before = bytes_of_file(out_);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit low{1 << 16, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &low);
  const std::string said = failure(options(), ExitCode::kFailure);
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_THAT(said, HasSubstr("out.h5.shuffle/samples"));
  EXPECT_TRUE(bytes_of_file(out_) == before);
  shuffle_dataset(options());
  EXPECT_TRUE(bytes_of_file(out_) == before);
}

TEST_F(Shuffled, NamesWhatIsWrong) {
  ShuffleOptions bad = options();
  bad.output = in_;
  EXPECT_THAT(failure(bad, ExitCode::kUsage), HasSubstr("is an input"));
  bad.output = folder_.path();
  EXPECT_THAT(failure(bad, ExitCode::kUsage), HasSubstr("is no regular file"));
  bad.output = folder_ / "no/out.h5";
  EXPECT_THAT(failure(bad, ExitCode::kUsage), HasSubstr("cannot create"));
  EXPECT_THAT(failure(options(0x1p15), ExitCode::kUsage), HasSubstr("are too little"));
  SmallDataset other;
  other.dense = 3;
  other.write(folder_ / "other.h5");
  bad = options();
  bad.inputs.push_back(folder_ / "other.h5");
  EXPECT_THAT(failure(bad, ExitCode::kUsage), HasSubstr("the width of /dense differs"));
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Shuffled, RefusesOffsetsThatFall) {
  // Without checksums, as other programs write files.
  const DatasetFile file(in_);
  const std::string whole = bytes_of_file(in_);
  const std::string column(reinterpret_cast<const char*>(file.find("bags")->offsets), 4096);
  const std::string name = "checksum_samples";
  flip(in_, static_cast<int64_t>(whole.find(name)));
  flip(in_, static_cast<int64_t>(whole.find(column)) + 10 * 8 + 3);
  EXPECT_THAT(failure(options(), ExitCode::kUsage),
              HasSubstr("record 9 (counted from 0), feature bags: offsets 12 to"));
}

/// What the command says to wrong options.
std::string command_error(std::vector<std::string> words) {
  words.insert(words.begin(), "shuffle");
  const DataCommand done = run_data_command(words);
  EXPECT_EQ(done.code, 2);
  return done.error;
}

TEST(ShuffleCommand, RefusesWrongOptions) {
  EXPECT_THAT(command_error({"in.h5"}), HasSubstr("--output is required"));
  EXPECT_THAT(command_error({"--output", "out.h5"}), HasSubstr("inputs is required"));
  for (const char* size : {"4", "1KiB", "GiB", "-1GiB", "4GB", "1e9GiB", "2000000TiB"}) {
    EXPECT_THAT(command_error({"in.h5", "--output", "out.h5", "--memory", size}),
                HasSubstr("needs a size of at least 1MiB, such as 512MiB or 4GiB, not"))
        << size;
  }
  EXPECT_THAT(command_error({"in.h5", "--output", "out.h5", "--threads", "0"}),
              HasSubstr("needs a whole number from 1 to 1024, not 0"));
  EXPECT_THAT(command_error({"in.h5", "--output", "out.h5", "--seed", "-1"}), HasSubstr("--seed"));
}

}  // namespace
}  // namespace dlrm
