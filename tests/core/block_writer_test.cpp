#include "dlrm/core/block_writer.h"

#include <cstring>
#include <filesystem>
#include <new>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"
#include "system_calls.h"

namespace dlrm {
namespace {

class Blocks : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 4096;
  Blocks() {
    std::string name = (std::filesystem::temp_directory_path() / "dlrm_blocks_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Blocks() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(Blocks, AreWrittenWhereTheyBelong) {
  constexpr int kCount = 200;
  File file(folder_ + "/file", File::Mode::kCreate);
  file.reserve(kCount * kBytes);
  file.bypass_cache();
  BlockWriter writer(file, kBytes);
  AlignedBlock block = aligned_block(kBytes);
  for (int i = kCount - 1; i >= 0; --i) {
    std::memset(block.get(), i, kBytes);
    writer.write(block, kBytes, i * static_cast<int64_t>(kBytes));
  }
  writer.wait();
  for (int i = 0; i < kCount; ++i) {
    file.read(block.get(), kBytes, i * static_cast<int64_t>(kBytes));
    EXPECT_EQ(block[0], static_cast<std::byte>(i));
    EXPECT_EQ(block[kBytes - 1], static_cast<std::byte>(i));
  }
}

TEST_F(Blocks, TellThatAWriteFailed) {
  const std::string path = folder_ + "/file";
  { const File made(path, File::Mode::kCreate); }
  File file(path, File::Mode::kRead);
  BlockWriter writer(file, kBytes);
  AlignedBlock block = aligned_block(kBytes);
  writer.write(block, kBytes, 0);
  for (int times = 0; times < 2; ++times) {
    EXPECT_THAT(error_of([&] { writer.wait(); }), ::testing::HasSubstr(path + ": cannot write"));
  }
  EXPECT_THAT(error_of([&] { writer.write(block, kBytes, 0); }), ::testing::HasSubstr(path));
}

TEST_F(Blocks, TellThatThereAreTooFewThreadsToWriteThem) {
  const std::string path = folder_ + "/file";
  File file(path, File::Mode::kCreate);
  int threads = 0;
  for (;; ++threads) {
    test::let_threads_start(threads);
    const std::string error = error_of([&] { BlockWriter(file, kBytes); });
    if (error.empty()) break;
    EXPECT_EQ(error,
              path + ": cannot start a thread to write it: Resource temporarily unavailable");
  }
  test::let_threads_start(-1);
  EXPECT_GT(threads, 0);
}

TEST_F(Blocks, TellThatThereIsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end a program that asks for too much";
#else
  constexpr size_t kTooMany = size_t{1} << 62;
  EXPECT_THROW(aligned_block(kTooMany), std::bad_alloc);
  File file(folder_ + "/file", File::Mode::kCreate);
  BlockWriter writer(file, kTooMany);
  AlignedBlock block = aligned_block(kBytes);
  std::memset(block.get(), 'x', kBytes);
  EXPECT_THROW(writer.write(block, kBytes, 0), std::bad_alloc);
  writer.wait();
  EXPECT_EQ(file.size(), static_cast<int64_t>(kBytes));
#endif
}

}  // namespace
}  // namespace dlrm
