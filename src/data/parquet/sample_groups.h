#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlrm/core/view.h"

#include "python_process.h"

namespace dlrm {

/// What the row groups of Parquet files have, by the import's schema.
struct GroupsHeader {
  struct Feature {
    std::string name;
    int64_t rows = 0;   ///< every id is less; 0: nobody knows
    int64_t bytes = 4;  ///< of an id
    bool lists = false;
  };
  std::vector<std::string> files;
  std::vector<int64_t> rows, file_of, first;  ///< of each group; `first` record in its file
  int64_t labels = 1, dense = 0;              ///< numbers of a sample
  bool weighted = false;
  std::vector<Feature> features;
  std::string preprocessing;
};

/// The samples of a row group, column by column: label, weight, dense, ids and offsets of features.
struct SampleGroup {
  std::unique_ptr<std::byte[]> bytes;
  const float *labels = nullptr, *weights = nullptr, *dense = nullptr;  ///< `weights` may be null
  struct Feature {
    const std::byte* ids = nullptr;
    const int64_t* offsets = nullptr;  ///< null: one id of each sample
  };
  std::vector<Feature> features;
};

/// The samples of row groups, which Python processes read and encode. Thread-safe: every thread
/// that needs a group reads it with a process of its own.
class SampleGroups {
 public:
  /// A usage_error says what is wrong with schema, dictionary or files.
  SampleGroups(const std::string& schema, const std::string& dictionary,
               const std::vector<std::string>& paths);

  const GroupsHeader& header() const { return header_; }
  /// These groups. Those that nobody has read are read. A usage_error names the record of a value
  /// that cannot be used.
  std::vector<std::shared_ptr<const SampleGroup>> get(View<const int64_t> groups);
  /// Reads a group if nobody has. Its error waits for get().
  void prepare(int64_t group);
  /// Forgets all but these, which are in order.
  void keep(View<const int64_t> groups);

 private:
  struct Entry {
    std::shared_ptr<const SampleGroup> group;  // null: it is being read
    std::exception_ptr error;
  };

  std::unique_ptr<PythonProcess> start() const;
  GroupsHeader read_header(PythonProcess& process) const;
  std::shared_ptr<const SampleGroup> read(int64_t group);
  std::shared_ptr<const SampleGroup> ask(PythonProcess& process, int64_t group) const;
  bool claim(int64_t group);
  void fill(int64_t group);

  std::vector<std::string> arguments_;
  GroupsHeader header_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::map<int64_t, Entry> entries_;
  std::vector<std::unique_ptr<PythonProcess>> idle_;
};

}  // namespace dlrm
