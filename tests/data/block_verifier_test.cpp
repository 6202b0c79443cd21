// The verification of blocks by several threads, and of several files.
#include "data/block_verifier.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dlrm/core/file.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/hdf5/file.h"

#include "data/dataset_layout.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

/// Flips a bit of a byte of a column.
void damage(const std::string& path, const std::string& column, int64_t at) {
  const hdf5::File metadata = hdf5::File::open(path);
  const int64_t offset = metadata.dataset(column).storage().offset + at;
  File file(path, File::Mode::kReadWrite);
  uint8_t byte = 0;
  file.read(&byte, 1, offset);
  byte ^= 1;
  file.write(&byte, 1, offset);
}

// A page that stops the thread which reads it.
std::atomic<void*> page{nullptr};
std::atomic<int> stopped{0};
std::atomic<bool> released{false};

void stop_thread(int, siginfo_t*, void*) {
  ++stopped;
  while (!released) usleep(1000);
  mprotect(page, 4096, PROT_READ);
}

/// True once a thread of this process sleeps. False after `ended`, or after a long time.
bool sleeps(pid_t thread, const std::atomic<bool>& ended) {
  const std::string path = fmt::format("/proc/self/task/{}/stat", thread);
  for (int tries = 0; tries < 20000 && !ended; ++tries) {
    const std::string text = bytes_of_file(path);
    if (text.find(") S ") != std::string::npos) return true;
    usleep(1000);
  }
  return false;
}

/// While a thread verifies block 0, another one needs blocks 0 and 1. It verifies block 1 and then
/// sleeps until block 0 is good, or until it is its turn to find the defect.
TEST(BlockVerifier, AThreadWaitsForABlockThatAnotherOneVerifies) {
  if (sysconf(_SC_PAGESIZE) != 4096) GTEST_SKIP() << "other pages";
  struct sigaction action {
  }, before{};
  action.sa_sigaction = stop_thread;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
  for (const bool bad : {false, true}) {
    const TemporaryFolder folder;
    const std::string path = folder / "a.h5";
    SmallDataset data;
    data.samples = kChecksumSamples + 10;
    data.write(path, data.samples);
    if (bad) damage(path, "/label", 0);
    const Dataset dataset(path);
    const BlockVerifier verifier(dataset, {{0, 1, 2}});
    const std::vector<SamplePlace> first{{0, 5}};
    const std::vector<SamplePlace> both{
        {0, kChecksumSamples - 1}, {0, 0}, {0, kChecksumSamples}, {0, 7}};
    const auto error = [&](View<const SamplePlace> places) -> std::string {
      try {
        verifier.verify(places);
        return "none";
      } catch (const Error& error) {
        return error.what();
      }
    };
    page = const_cast<std::byte*>(dataset.files()[0]->labels());
    ASSERT_EQ(reinterpret_cast<uintptr_t>(page.load()) % 4096, 0u);
    stopped = 0;
    released = false;
    ASSERT_EQ(mprotect(page, 4096, PROT_NONE), 0);
    std::string of_one, of_other;
    std::thread one([&] { of_one = error(first); });
    while (stopped == 0) usleep(1000);
    std::atomic<pid_t> id{0};
    std::atomic<bool> ended{false};
    std::thread other([&] {
      id = gettid();
      of_other = error(both);
      ended = true;
    });
    while (id == 0) usleep(1000);
    EXPECT_TRUE(sleeps(id, ended));
    EXPECT_FALSE(ended);
    EXPECT_EQ(stopped, 1);
    damage(path, "/dense", kChecksumSamples * 8);  // block 1 is verified already
    released = true;
    one.join();
    other.join();
    const std::string expected =
        bad ? path +
                  ": /label is damaged in samples 0 to 16383: their CRC32C is not the one that was "
                  "written (data.verify: false reads them anyway)"
            : "none";
    EXPECT_EQ(of_one, expected);
    EXPECT_EQ(of_other, expected);
    EXPECT_EQ(error(first), expected);
    const std::vector<SamplePlace> second{{0, kChecksumSamples + 9}};
    EXPECT_EQ(error(second), "none");
  }
  sigaction(SIGSEGV, &before, nullptr);
}

/// Files without checksums, with blocks of 16 samples, and with the usual blocks.
TEST(BlockVerifier, EachFileHasItsOwnBlocks) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  SmallDataset data;
  for (const int64_t samples : {10, 12, static_cast<int>(kChecksumSamples) + 10}) {
    paths.push_back(folder / fmt::format("{}.h5", paths.size()));
    data.samples = samples;
    data.write(paths.back(), samples);
  }
  const hid_t file = H5Fopen(paths[0].c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  EXPECT_GE(H5Adelete(file, "checksum_samples"), 0);
  H5Fclose(file);
  hdf5::File second = hdf5::File::open(paths[1], hdf5::File::Access::kReadWrite);
  second.set_integer("checksum_samples", 16);
  second.close();
  for (const bool shuffle : {false, true}) {
    RunConfig config = data.config(paths[0], kChecksumSamples + 32);
    config.data.train = paths;
    config.data.shuffle = shuffle;
    const auto load = [&] {
      Batch batch;
      make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
    };
    const auto text = [&](size_t f, int64_t first, int64_t last) {
      return fmt::format(
          "{}: /dense is damaged in samples {} to {}: their CRC32C is not the one that was written "
          "(data.verify: false reads them anyway)",
          paths[f], first, last);
    };
    load();
    damage(paths[0], "/dense", 9 * 8);
    load();
    damage(paths[2], "/dense", (kChecksumSamples + 9) * 8);
    EXPECT_EQ(error_of(load), text(2, kChecksumSamples, kChecksumSamples + 9));
    damage(paths[2], "/dense", (kChecksumSamples + 9) * 8);
    damage(paths[1], "/dense", 11 * 8);
    EXPECT_EQ(error_of(load), text(1, 0, 11));
    damage(paths[1], "/dense", 11 * 8);
    damage(paths[0], "/dense", 9 * 8);
    load();
  }
}

}  // namespace
}  // namespace dlrm
