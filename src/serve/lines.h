#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/encode/text_records.h"

#include "trained_model.h"

namespace dlrm::serve {

/// Reads lines from a file descriptor.
class LineReader {
 public:
  /// Longer lines are cut off after `longest` bytes.
  LineReader(int file, size_t longest);

  struct Line {
    std::string_view text;  ///< without the end of the line
    bool cut = false;
  };
  /// Waits for a line, and returns up to `most` lines that have arrived. They are valid until the
  /// next call. The last line need not be ended. No line is returned at the end of the file. Throws
  /// run_error if reading fails.
  const std::vector<Line>& next(size_t most);

 private:
  bool take_lines(size_t most);
  bool read_more();

  const int file_;
  const size_t longest_;
  std::string buffer_;
  size_t begin_ = 0;    // of the bytes that were not returned yet
  size_t scanned_ = 0;  // no line ends between begin_ and here
  bool skipping_ = false;
  bool ended_ = false;
  std::vector<Line> lines_;
};

/// What lines are.
struct LineOptions {
  std::optional<RecordFormat> records;  ///< records instead of samples, which are no Parquet
  std::vector<std::string> keys;        ///< columns of records whose values precede the probability
};

/// Answers each line of `in`, a sample or a record in JSON, by a line on `out`: {"probability": p},
/// with several labels {"probability": {"click": p, ...}}, or {"error": "..."} if the line is bad.
/// Lines that have arrived together are predicted together, at most `batch_size` at once. Returns
/// at the end of `in`. Throws run_error if `out` fails, and a usage_error if the model cannot read
/// records.
void predict_lines(TrainedModel& model, const LineOptions& options, int64_t batch_size, int in,
                   int out);

/// Answers each record of a Parquet file likewise. A usage_error says what is wrong with the file.
void predict_parquet(TrainedModel& model, const std::vector<std::string>& keys, int64_t batch_size,
                     const std::string& path, int out);

}  // namespace dlrm::serve
