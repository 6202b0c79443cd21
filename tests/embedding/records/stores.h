#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "embedding/records/record_store.h"
#include "error_of.h"

namespace dlrm::testing {

/// A folder that is removed at the end.
class StoreFolder {
 public:
  explicit StoreFolder(const std::string& parent = ::testing::TempDir()) {
    std::string name = parent + "/stores_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~StoreFolder() { std::filesystem::remove_all(path_); }
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;
  const std::string& path() const { return path_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::string path_;
};

/// Options with segments of three blocks, so that a few thousand records fill many.
inline SsdRecordsOptions small_segments(const std::string& directory) {
  SsdRecordsOptions options;
  options.directory = directory;
  options.name = "C3";
  options.segment_bytes = 3 * 4096;
  options.sort_bytes = 4 * options.segment_bytes;
  options.queue_depth = 16;
  return options;
}

using Rows = std::vector<int64_t>;

inline Rows row_range(int64_t begin, int64_t end, int64_t step = 1) {
  Rows rows;
  for (int64_t row = begin; row < end; row += step) rows.push_back(row);
  return rows;
}

/// Byte `at` of version `version` of a row's record.
inline std::byte byte_of(int64_t row, int64_t version, int64_t at) {
  uint64_t z = static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u +
               static_cast<uint64_t>(version) * 0xbf58476d1ce4e5b9u +
               static_cast<uint64_t>(at) * 0x94d049bb133111ebu;
  z = (z ^ (z >> 31)) * 0xd6e8feb86659fd93u;
  return static_cast<std::byte>(z >> 56);
}

inline void write_version(RecordStore& store, const Rows& rows, int64_t record_bytes,
                          int64_t version) {
  std::vector<std::byte> records;
  records.reserve(rows.size() * static_cast<size_t>(record_bytes));
  for (const int64_t row : rows) {
    for (int64_t i = 0; i < record_bytes; ++i) records.push_back(byte_of(row, version, i));
  }
  store.write(rows, records.data());
}

struct Records {
  std::vector<std::byte> bytes;
  std::vector<uint8_t> written;
};

inline Records read_records(RecordStore& store, const Rows& rows, int64_t record_bytes) {
  Records read{std::vector<std::byte>(rows.size() * static_cast<size_t>(record_bytes)),
               std::vector<uint8_t>(rows.size(), 7)};
  store.read(rows, read.bytes.data(), read.written.data());
  return read;
}

/// Rows whose record is not that of `version_of(row)`, where -1 stands for never written. All rows
/// if they cannot be read.
template <class VersionOf>
Rows wrong_rows(RecordStore& store, const Rows& rows, int64_t record_bytes, VersionOf version_of) {
  Records read;
  try {
    read = read_records(store, rows, record_bytes);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
    return rows;
  }
  Rows wrong;
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t version = version_of(rows[r]);
    bool good = read.written[r] == (version >= 0);
    for (int64_t i = 0; i < record_bytes && good && version >= 0; ++i) {
      good = read.bytes[r * static_cast<size_t>(record_bytes) + static_cast<size_t>(i)] ==
             byte_of(rows[r], version, i);
    }
    if (!good) wrong.push_back(rows[r]);
  }
  return wrong;
}

/// Runs a function in a child process. Returns its exit status, as waitpid() does.
template <class Function>
int in_child(Function function) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      code = function() ? 0 : 2;
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace dlrm::testing
