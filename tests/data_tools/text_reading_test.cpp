// Reads that fail, are interrupted or short, and systems that start few threads. This file defines
// calls of the system for the whole program.
#include <atomic>
#include <cerrno>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/data/text_chunks.h"

#include "criteo_fixture.h"
#include "error_of.h"

namespace dlrm {
namespace {

enum class Reads { kWhole, kInterrupted, kSingle, kFailing };
std::atomic<Reads> reads{Reads::kWhole};
std::atomic<int> started{0}, most_started{1 << 20};

}  // namespace
}  // namespace dlrm

extern "C" ssize_t read(int fd, void* data, size_t bytes) {
  static thread_local int calls = 0;
  if (dlrm::reads == dlrm::Reads::kFailing) {
    errno = EIO;
    return -1;
  }
  if (dlrm::reads == dlrm::Reads::kInterrupted) {
    if (++calls % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    bytes = std::min<size_t>(bytes, 1 + static_cast<size_t>(calls) % 1000);
  }
  if (dlrm::reads == dlrm::Reads::kSingle) bytes = std::min<size_t>(bytes, 1);
  return syscall(SYS_read, fd, data, bytes);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (dlrm::started >= dlrm::most_started) return EAGAIN;
  ++dlrm::started;
  return real(thread, attributes, start, argument);
}
constexpr bool kThreadsAreCounted = true;
#else
constexpr bool kThreadsAreCounted = false;
#endif

namespace dlrm {
namespace {

class TextReading : public InFolder {
 protected:
  ~TextReading() override {
    reads = Reads::kWhole;
    most_started = 1 << 20;
  }

  static std::string text(const std::string& path) {
    TextInput input(path);
    std::string all;
    std::vector<char> part(5000);
    while (const int64_t got = input.read(part.data(), std::ssize(part))) {
      all.append(part.data(), static_cast<size_t>(got));
    }
    return all;
  }
};

TEST_F(TextReading, InterruptedAndShortReadsChangeNothing) {
  const std::string all = text_of(generated_lines(3000, 1));
  write("a.tsv", all);
  write("a.gz", gzipped(all) + gzipped(all));
  reads = Reads::kInterrupted;
  EXPECT_EQ(text(path("a.tsv")), all);
  EXPECT_EQ(text(path("a.gz")), all + all);
}

TEST_F(TextReading, MayComeByteByByte) {
  const std::string all = text_of(generated_lines(10, 1));
  write("a.tsv", all);
  write("a.gz", gzipped(all) + gzipped(all) + std::string(3, '\0'));
  reads = Reads::kSingle;
  EXPECT_EQ(text(path("a.tsv")), all);
  EXPECT_EQ(text(path("a.gz")), all + all);
}

TEST_F(TextReading, AReadThatFailsIsNamed) {
  const std::string all = text_of(generated_lines(3000, 1));
  for (const bool gzip : {false, true}) {
    write("a", gzip ? gzipped(all) : all);
    TextInput input(path("a"));
    std::vector<char> part(1000);
    EXPECT_EQ(input.read(part.data(), 1000), 1000);
    reads = Reads::kFailing;
    EXPECT_EQ(error_of(
                  [&] {
                    while (input.read(part.data(), 1000) > 0) {
                    }
                  },
                  ExitCode::kFailure),
              path("a") + ": cannot read: Input/output error");
    reads = Reads::kWhole;
  }
}

TEST_F(TextReading, GzipMayBePaddedWithAnyNumberOfZeros) {
  const std::string all = text_of(generated_lines(10, 1));
  for (const size_t zeros : {size_t{1}, size_t{1} << 18, (size_t{1} << 18) + 1, size_t{600000}}) {
    write("a.gz", gzipped(all) + std::string(zeros, '\0'));
    EXPECT_EQ(text(path("a.gz")), all);
    write("a.gz", gzipped(all) + std::string(zeros, '\0') + "x");
    EXPECT_EQ(error_of([&] { text(path("a.gz")); }, ExitCode::kUsage),
              path("a.gz") + ": damaged gzip file: bytes after its end that are not gzip");
  }
}

TEST_F(TextReading, ALineAndItsEndHaveALimit) {
  const auto size = static_cast<size_t>(TextChunks::kLongestLine);
  const auto chunk_of = [&](size_t length) {
    write("a", std::string(length, 'x') + "\n");
    TextChunks chunks({path("a")}, 1000);
    TextChunk chunk;
    chunks.next(chunk);
    return chunk.size;
  };
  EXPECT_EQ(chunk_of(size - 1), TextChunks::kLongestLine);
  EXPECT_EQ(error_of([&] { chunk_of(size); }, ExitCode::kUsage),
            fmt::format("{}: the line at byte 0 is longer than {} bytes", path("a"),
                        TextChunks::kLongestLine));
}

class TextThreads : public TextReading {
 protected:
  RunConfig config(const std::vector<std::string>& names, int workers) const {
    RunConfig config;
    config.model.dense_features = 13;
    TableConfig table;
    table.name = table.group = "C1";
    table.rows = 97;
    table.dim = 4;
    table.features.push_back({"C1", 1, Pooling::kSum});
    config.model.tables.push_back(table);
    config.data.source = DataKind::kCriteo;
    for (const std::string& name : names) config.data.train.push_back(path(name));
    config.data.workers = workers;
    config.train.global_batch_size = 7;
    return config;
  }
  int64_t samples(const std::vector<std::string>& names, int workers) const {
    return make_batch_source(config(names, workers), Split::kTrain, 0, 1)->plan().samples;
  }
};

TEST_F(TextThreads, FilesAreIndexedByTheThreadsThatTheSystemStarts) {
  for (const char* name : {"a", "b", "c"}) write(name, text_of(generated_lines(20, 1)));
  for (const int most : {0, 1, 9}) {
    started = 0;
    most_started = most;
    EXPECT_EQ(samples({"a", "b", "c"}, 3), 60);
  }
}

TEST_F(TextThreads, TheFirstFileThatCannotBeReadIsNamed) {
  for (const char* name : {"a", "c"}) write(name, text_of(generated_lines(20, 1)));
  for (const int workers : {0, 3}) {
    EXPECT_EQ(error_of(
                  [&] {
                    samples({"a", "x", "c", "y"}, workers);
                  },
                  ExitCode::kUsage),
              path("x") + ": cannot open the text: No such file or directory");
  }
}

TEST_F(TextThreads, BatchesAreReadAheadOnTheThreadsThatTheSystemStarts) {
  if (!kThreadsAreCounted) GTEST_SKIP() << "the sanitizer starts threads itself";
  write("a", text_of(generated_lines(20, 1)));
  const auto source = make_batch_source(config({"a"}, 1), Split::kTrain, 0, 1);
  started = 0;
  most_started = 1;
  {
    Prefetcher prefetcher(*source, 0, 6, 3, 2);
    for (int64_t t = 0; t < 6; ++t) EXPECT_EQ(prefetcher.next()->t, t);
  }
  EXPECT_EQ(error_of([&] { Prefetcher(*source, 0, 6, 3, 2); }, ExitCode::kFailure),
            "this system starts no thread that reads batches");
}

}  // namespace
}  // namespace dlrm
