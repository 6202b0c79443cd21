// How often texts are read, and on how many threads. This file defines calls of the system for the
// whole program.
#include <atomic>
#include <cerrno>
#include <functional>

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/data/text_chunks.h"

#include "criteo_fixture.h"
#include "data/indexed_text.h"

namespace dlrm {
namespace {

enum class Reads { kWhole, kInterrupted, kSingle, kFailing };
std::atomic<Reads> reads{Reads::kWhole};
std::atomic<int64_t> bytes_read{0}, bytes_read_in_place{0};
std::atomic<int> started{0}, most_started{1 << 20}, sequential{0};

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
  const ssize_t got = syscall(SYS_read, fd, data, bytes);
  dlrm::bytes_read += std::max<ssize_t>(0, got);
  return got;
}

extern "C" int posix_fadvise(int fd, off_t from, off_t bytes, int advice) {
  if (from == 0 && bytes == 0 && advice == POSIX_FADV_SEQUENTIAL) ++dlrm::sequential;
  return static_cast<int>(syscall(SYS_fadvise64, fd, from, bytes, advice));
}

extern "C" ssize_t pread(int fd, void* data, size_t bytes, off_t at) {
  const ssize_t got = syscall(SYS_pread64, fd, data, bytes, at);
  dlrm::bytes_read_in_place += std::max<ssize_t>(0, got);
  return got;
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

  static std::string failure(const std::function<void()>& body, ExitCode code) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "none";
  }

  static std::string lines_of(const IndexedText& text, int64_t first, int64_t last) {
    TextChunk chunk;
    text.read(first, last, chunk);
    return {chunk.begin(), chunk.end()};
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

TEST_F(TextReading, IsAnnouncedToTheSystem) {
  write("a", "text");
  sequential = 0;
  const TextInput input(path("a"));
  EXPECT_EQ(sequential, 1);
}

TEST_F(TextReading, AReadThatFailsIsNamed) {
  const std::string all = text_of(generated_lines(3000, 1));
  for (const bool gzip : {false, true}) {
    write("a", gzip ? gzipped(all) : all);
    TextInput input(path("a"));
    std::vector<char> part(1000);
    EXPECT_EQ(input.read(part.data(), 1000), 1000);
    reads = Reads::kFailing;
    EXPECT_EQ(failure(
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
    EXPECT_EQ(failure([&] { text(path("a.gz")); }, ExitCode::kUsage),
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
  EXPECT_EQ(failure([&] { chunk_of(size); }, ExitCode::kUsage),
            fmt::format("{}: the line at byte 0 is longer than {} bytes; expected a Criteo log",
                        path("a"), TextChunks::kLongestLine));
}

/// Gzip is read once from its beginning, unless lines further back than those kept are asked for.
TEST_F(TextReading, GzipIsReadAgainForLinesThatAreNotKept) {
  constexpr int64_t kLines = 12000, kStep = 500;
  const std::vector<LogLine> lines = generated_lines(kLines, 3);
  std::string all = text_of(lines);
  all.pop_back();  // the end of the last line
  write("a.gz", gzipped(all));
  all += '\n';
  const auto packed = static_cast<int64_t>(content("a.gz").size());
  ASSERT_GT(packed, 1 << 19);
  IndexedText text(path("a.gz"), 2 * kStep);
  EXPECT_EQ(text.lines(), kLines);
  const auto read_all = [&] {
    const int64_t before = bytes_read;
    std::string got;
    for (int64_t at = 0; at < kLines; at += kStep) got += lines_of(text, at, at + kStep);
    EXPECT_TRUE(got == all);
    return bytes_read - before;
  };
  const auto read_line = [&](int64_t line) {
    const int64_t before = bytes_read;
    EXPECT_EQ(lines_of(text, line, line + 1), lines[static_cast<size_t>(line)].text() + "\n");
    return bytes_read - before;
  };
  EXPECT_EQ(read_all(), packed);
  for (int64_t back = 1; back <= 2 * kStep; back += 99) EXPECT_EQ(read_line(kLines - back), 0);
  EXPECT_GT(read_line(0), 0);
  EXPECT_EQ(read_line(1), 0);
  EXPECT_GT(read_line(kLines - 1), 0);  // what was kept before is not kept any more
  text.keep(kLines);
  EXPECT_LE(read_all(), packed);
  for (const int64_t line : {int64_t{0}, kLines / 2, kLines - 1}) EXPECT_EQ(read_line(line), 0);
  text.keep(0);
  EXPECT_EQ(read_line(kLines - 1), 0);
}

TEST_F(TextReading, OfPlainTextOnlyTheBlocksOfTheLinesAreRead) {
  const std::vector<LogLine> lines = generated_lines(8000, 3);
  write("a", text_of(lines));
  const IndexedText text(path("a"), 1);
  for (const int64_t line : {0, 4000, 7999}) {
    const int64_t before = bytes_read_in_place;
    EXPECT_EQ(lines_of(text, line, line + 1), lines[static_cast<size_t>(line)].text() + "\n");
    EXPECT_GT(bytes_read_in_place - before, 0);
    EXPECT_LE(bytes_read_in_place - before, 1 << 18);
  }
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

TEST_F(TextThreads, AsManyThreadsIndexFilesAsReadBatchesAndFewerIfTheSystemStartsFewer) {
  for (const char* name : {"a", "b", "c"}) write(name, text_of(generated_lines(20, 1)));
  for (const int workers : {0, 1, 2, 3, 9}) {
    started = 0;
    EXPECT_EQ(samples({"a", "b", "c"}, workers), 60);
    if (kThreadsAreCounted) EXPECT_EQ(started, std::clamp(workers - 1, 0, 2)) << workers;
  }
  for (const int most : {0, 1}) {
    started = 0;
    most_started = most;
    EXPECT_EQ(samples({"a", "b", "c"}, 3), 60);
    if (kThreadsAreCounted) EXPECT_EQ(started, most);
  }
}

/// Batches of several blocks. Threads read at most one batch ahead.
TEST_F(TextThreads, GzipKeepsTheLinesOfAsManyBatchesAsThreadsAreApart) {
  write("a.gz", gzipped(text_of(generated_lines(24000, 3))));
  RunConfig one = config({"a.gz"}, 1);
  RunConfig many = one;
  many.train.global_batch_size = 8000;
  one.data.prefetch = many.data.prefetch = 1;
  const auto counted = make_batch_source(one, Split::kTrain, 0, 1);
  for (const bool indexed : {false, true}) {
    const auto source =
        make_batch_source(many, Split::kTrain, 0, 1, indexed ? counted.get() : nullptr);
    const auto read = [&](int64_t t) {
      const int64_t before = bytes_read;
      Batch batch;
      source->load(t, batch);
      return bytes_read - before;
    };
    EXPECT_GT(read(0), 0);
    EXPECT_GT(read(1), 0);
    EXPECT_EQ(read(0), 0);
    EXPECT_GT(read(2), 0);
    EXPECT_EQ(read(1), 0);
    EXPECT_GT(read(0), 0);  // from the beginning again
  }
}

TEST_F(TextThreads, TheFirstFileThatCannotBeReadIsNamed) {
  for (const char* name : {"a", "c"}) write(name, text_of(generated_lines(20, 1)));
  for (const int workers : {0, 3}) {
    EXPECT_EQ(failure(
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
  EXPECT_EQ(started, 1);
  EXPECT_EQ(failure([&] { Prefetcher(*source, 0, 6, 3, 2); }, ExitCode::kFailure),
            "this system starts no thread that reads batches");
}

}  // namespace
}  // namespace dlrm
