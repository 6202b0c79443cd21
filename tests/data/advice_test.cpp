// What a dataset asks the system to read ahead. This file defines madvise() for the whole program.
#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/hdf5/file.h"

#include "data/epoch_order.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

using Bytes = std::pair<uintptr_t, size_t>;
std::mutex mutex;
std::multiset<Bytes> advised;

}  // namespace
}  // namespace dlrm

extern "C" int madvise(void* at, size_t bytes, int advice) {
  if (advice == MADV_WILLNEED) {
    const std::lock_guard lock(dlrm::mutex);
    dlrm::advised.insert({reinterpret_cast<uintptr_t>(at), bytes});
  }
  return static_cast<int>(syscall(SYS_madvise, at, bytes, advice));
}

namespace dlrm {
namespace {

constexpr uintptr_t kPage = 4096;

/// The pages of some bytes, however they are asked for.
std::set<uintptr_t> pages_of(const std::multiset<Bytes>& bytes) {
  std::set<uintptr_t> pages;
  for (const auto& [begin, size] : bytes) {
    for (uintptr_t page = begin / kPage; page * kPage < begin + size; ++page) pages.insert(page);
  }
  return pages;
}

/// Where a file is mapped.
uintptr_t mapping_of(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(path)) return std::stoull(line, nullptr, 16);
  }
  ADD_FAILURE() << path << " is not mapped";
  return 0;
}

/// Two files with all kinds of columns. Their samples are two windows of the order.
class Advice : public ::testing::Test {
 protected:
  Advice() {
    write(paths_[0], kFirst);
    write(paths_[1], kSamples - kFirst);
  }

  static void write(const std::string& path, int64_t samples) {
    DatasetLayout layout;
    layout.dense = 2;
    layout.weighted = true;
    layout.features = {{"two", 2, 5, IdType::kInt32}, {"bags", 0, 5, IdType::kInt32}};
    DatasetWriter writer(path, layout);
    const auto n = static_cast<size_t>(samples);
    const std::vector<float> ones(2 * n, 1.0f);
    const std::vector<int32_t> ids(2 * n, 1), lengths(n, 0);
    const View<const float> all(ones);
    DatasetBlock block{samples, all.first(n), all, {}, all.first(n)};
    block.bags.resize(2);
    block.bags[0].ids = ids;
    block.bags[1].lengths = lengths;
    writer.append(block);
    writer.finish();
  }

  RunConfig config() const {
    RunConfig config = SmallDataset().config(paths_[0], 4096);
    config.data.train.push_back(paths_[1]);
    config.model.tables.resize(2);
    config.model.tables[0].features = {{"bags", 1, Pooling::kSum}};
    config.model.tables[1].features = {{"two", 2, Pooling::kSum}};
    return config;
  }

  /// The bytes of a window's samples in all columns.
  std::multiset<Bytes> window(int64_t epoch, int64_t number) const {
    const EpochOrder order(kSamples, true, 1);
    const std::vector<std::pair<std::string, int64_t>> columns{
        {"/label", 1}, {"/weight", 4}, {"/dense", 8}, {"/sparse/two/ids", 8}};
    std::multiset<Bytes> bytes;
    for (size_t f = 0; f < 2; ++f) {
      const Range samples = f == 0 ? Range{0, kFirst} : Range{kFirst, kSamples};
      const hdf5::File file = hdf5::File::open(paths_[f]);
      const uintptr_t base = mapping_of(paths_[f]);
      const auto add = [&](const std::string& name, int64_t begin, int64_t end) {
        const auto at = base + static_cast<uintptr_t>(file.dataset(name).storage().offset + begin);
        bytes.insert({at, static_cast<size_t>(end - begin)});
      };
      for (const Range& range : order.ranges_of(epoch, number)) {
        const int64_t begin = std::max(range.begin, samples.begin) - samples.begin;
        const int64_t end = std::min(range.end, samples.end) - samples.begin;
        if (begin >= end) continue;
        for (const auto& [name, width] : columns) add(name, begin * width, end * width);
        add("/sparse/bags/offsets", begin * 8, end * 8 + 8);
      }
    }
    return bytes;
  }

  static std::set<uintptr_t> taken() {
    const std::lock_guard lock(mutex);
    return pages_of(std::exchange(advised, {}));
  }

  static constexpr int64_t kFirst = 20000;
  static constexpr int64_t kSamples = (EpochOrder::kWindowBlocks + 2) * EpochOrder::kBlock + 77;
  TemporaryFolder folder_;
  const std::vector<std::string> paths_{folder_ / "a.h5", folder_ / "b.h5"};
};

TEST_F(Advice, IsForEachWindowOnceAndForTheNextOne) {
  if (sysconf(_SC_PAGESIZE) != kPage) GTEST_SKIP() << "other pages";
  const auto source = make_batch_source(config(), Split::kTrain, 0, 1);
  taken();
  source->will_need(0);
  std::multiset<Bytes> both = window(0, 0);
  both.merge(window(0, 1));
  EXPECT_TRUE(taken() == pages_of(both));
  source->will_need(0);
  source->will_need(1);
  EXPECT_TRUE(taken().empty());
  const int64_t last = source->plan().batches_per_epoch() - 1;
  source->will_need(last);
  EXPECT_TRUE(taken() == pages_of(window(1, 0)));  // of the next epoch
  source->will_need(last + 1);
  EXPECT_TRUE(taken() == pages_of(window(1, 1)));
}

/// Without weights and dense features, and with bags of a fixed size alone.
TEST_F(Advice, IsNotForColumnsThatAreNotThere) {
  if (sysconf(_SC_PAGESIZE) != kPage) GTEST_SKIP() << "other pages";
  const std::string path = folder_ / "c.h5";
  constexpr int64_t kFew = 5000;
  {
    DatasetLayout layout;
    layout.features = {{"two", 2, 5, IdType::kInt64}};
    const std::vector<float> labels(kFew, 1.0f);
    const std::vector<int64_t> ids(2 * kFew, 1);
    DatasetWriter writer(path, layout);
    DatasetBlock block{kFew, labels, {}, {}};
    block.bags.resize(1);
    block.bags[0].wide_ids = ids;
    writer.append(block);
    writer.finish();
  }
  RunConfig config = this->config();
  config.data.train = {path};
  config.model.dense_features = 0;
  config.model.tables.erase(config.model.tables.begin());
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  taken();
  source->will_need(0);
  const uintptr_t base = mapping_of(path);
  const hdf5::File file = hdf5::File::open(path);
  std::multiset<Bytes> expected;
  expected.insert({base + static_cast<uintptr_t>(file.dataset("/label").storage().offset), kFew});
  expected.insert(
      {base + static_cast<uintptr_t>(file.dataset("/sparse/two/ids").storage().offset), 16 * kFew});
  EXPECT_TRUE(taken() == pages_of(expected));
}

}  // namespace
}  // namespace dlrm
