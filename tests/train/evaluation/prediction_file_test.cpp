#include "train/evaluation/prediction_file.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/file.h"
#include "dlrm/core/partition.h"
#include "dlrm/hdf5/file.h"

#include "train/checkpoint_tensors.h"
#include "train/test_rank.h"

namespace dlrm::testing {
namespace {

constexpr int64_t kBatches[] = {5, 2, 1};  // with three ranks, some have no samples

float probability_of(int64_t sample) { return 1.0f / static_cast<float>(sample + 3); }
float label_of(int64_t sample) { return sample % 3 == 0 ? 1.0f : 0.0f; }

void write_predictions(Communicator& comm, const std::string& path, bool finish = true) {
  PredictionFile file(comm, path, 8);
  int64_t first = 0;
  for (const int64_t size : kBatches) {
    const Range mine = part_of(size, comm.rank(), comm.size());
    std::vector<float> probabilities, labels;
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      probabilities.push_back(probability_of(first + i));
      labels.push_back(label_of(first + i));
    }
    file.append(size, probabilities, labels);
    first += size;
  }
  if (finish) file.finish();
}

void write_on_ranks(int ranks, const std::string& path, bool finish = true) {
  run_on_threads(ranks, [&](Communicator& comm) { write_predictions(comm, path, finish); });
}

std::vector<float> floats(const std::string& path, const char* name) {
  const int64_t at = hdf5::File::open(path).dataset(name).storage().offset;
  std::vector<float> values(8);
  File(path, File::Mode::kRead).read(values.data(), values.size() * sizeof(float), at);
  return values;
}

TEST(PredictionFile, TextHasALineForEachSampleInOrder) {
  TemporaryFolder folder;
  for (const int ranks : {1, 3}) {
    const std::string path = folder.path("p.csv");
    write_on_ranks(ranks, path);
    EXPECT_EQ(read_file(path),
              "sample,label,probability\n"
              "0,1,0.333333343\n1,0,0.25\n2,0,0.200000003\n3,1,0.166666672\n4,0,0.142857149\n"
              "5,0,0.125\n6,1,0.111111112\n7,0,0.100000001\n")
        << ranks << " ranks";
  }
}

TEST(PredictionFile, Hdf5HasAColumnOfEach) {
  TemporaryFolder folder;
  for (const int ranks : {1, 3}) {
    const std::string path = folder.path("p.h5");
    write_on_ranks(ranks, path);
    std::vector<int64_t> samples;
    std::vector<float> probabilities, labels;
    for (int64_t i = 0; i < 8; ++i) {
      samples.push_back(i);
      probabilities.push_back(probability_of(i));
      labels.push_back(label_of(i));
    }
    EXPECT_EQ(hdf5::File::open(path).dataset("/sample").read<int64_t>(), samples);
    EXPECT_EQ(floats(path, "/probability"), probabilities);
    for (const auto& [name, type] : {std::pair("/sample", hdf5::Type::kInt64),
                                     {"/probability", hdf5::Type::kFloat32},
                                     {"/label", hdf5::Type::kFloat32}}) {
      const hdf5::File file = hdf5::File::open(path);
      EXPECT_EQ(file.dataset(name).type(), type) << name;
      EXPECT_EQ(file.dataset(name).shape(), hdf5::Shape{8}) << name;
    }
    EXPECT_EQ(floats(path, "/label"), labels);
    EXPECT_EQ(hdf5::File::open(path).text("format"), "dlrm-predictions");
  }
}

/// Of two tasks: the second has other probabilities, and every fourth sample lacks its label.
void write_tasks(Communicator& comm, const std::string& path) {
  PredictionFile file(comm, path, 8, {"click", "buy"});
  int64_t first = 0;
  for (const int64_t size : kBatches) {
    const Range mine = part_of(size, comm.rank(), comm.size());
    std::vector<float> probabilities, labels;
    for (const bool buy : {false, true}) {
      for (int64_t i = first + mine.begin; i < first + mine.end; ++i) {
        probabilities.push_back(buy ? 0.5f : probability_of(i));
        labels.push_back(buy && i % 4 == 0 ? std::nanf("") : label_of(i));
      }
    }
    file.append(size, probabilities, labels);
    first += size;
  }
  file.finish();
}

TEST(PredictionFile, HasEveryTaskByItsName) {
  TemporaryFolder folder;
  const std::string text = folder.path("p.csv"), binary = folder.path("p.h5");
  for (const int ranks : {1, 3}) {
    run_on_threads(ranks, [&](Communicator& comm) {
      write_tasks(comm, text);
      write_tasks(comm, binary);
    });
    EXPECT_EQ(read_file(text),
              "sample,label_click,probability_click,label_buy,probability_buy\n"
              "0,1,0.333333343,,0.5\n1,0,0.25,0,0.5\n2,0,0.200000003,0,0.5\n"
              "3,1,0.166666672,1,0.5\n4,0,0.142857149,,0.5\n5,0,0.125,0,0.5\n"
              "6,1,0.111111112,1,0.5\n7,0,0.100000001,0,0.5\n")
        << ranks << " ranks";
    EXPECT_EQ(floats(binary, "/probability_click")[7], probability_of(7));
    EXPECT_EQ(floats(binary, "/probability_buy"), std::vector<float>(8, 0.5f));
    EXPECT_EQ(floats(binary, "/label_buy")[3], 1.0f);
    EXPECT_TRUE(std::isnan(floats(binary, "/label_buy")[4]));
  }
}

TEST(PredictionFile, OneThatIsNotFinishedLeavesTheEarlierFile) {
  TemporaryFolder folder;
  for (const char* name : {"p.csv", "p.h5"}) {
    const std::string path = folder.path(name);
    write_file(path, "earlier");
    write_on_ranks(2, path, /*finish=*/false);
    EXPECT_EQ(read_file(path), "earlier");
    const std::filesystem::directory_iterator files(folder.path());
    for (const auto& entry : files) EXPECT_NE(entry.path().extension(), ".partial");
  }
}

TEST(PredictionFile, ABadNameIsAnErrorOnEveryRank) {
  TemporaryFolder folder;
  const auto error_for = [&](const std::string& path) {
    std::string errors[2];
    run_on_threads(2, [&](Communicator& comm) {
      errors[comm.rank()] = error_of([&] { PredictionFile(comm, path, 8); });
    });
    EXPECT_EQ(errors[0], errors[1]);
    return errors[0];
  };
  EXPECT_EQ(error_for("p.txt"), "--predict p.txt: the name must end in .csv or .h5");
  const std::string absent = folder.path("absent/p");
  EXPECT_EQ(error_for(absent + ".csv"),
            "--predict: cannot create " + absent + ".csv: No such file or directory");
  EXPECT_TRUE(
      error_for(absent + ".h5").starts_with("--predict: cannot create " + absent + ".h5: "));
}

TEST(PredictionFile, ABadNameIsAUsageError) {
  TemporaryFolder folder;
  for (const char* name : {"p.txt", "absent/p.csv", "absent/p.h5"}) {
    run_on_threads(1, [&](Communicator& comm) {
      EXPECT_NE(usage_error_of([&] { PredictionFile(comm, folder.path(name), 8); }), "");
    });
  }
}

}  // namespace
}  // namespace dlrm::testing
