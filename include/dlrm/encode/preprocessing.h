#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/encode/text_table.h"

namespace dlrm {

/// How an import made samples of records: what the schema says of columns, the dictionaries, and
/// the means and deviations (docs/file-formats.md, "Preprocessing").
struct Preprocessing {
  struct Dense {
    std::string column;
    std::optional<double> fill;  ///< for a missing value, which is an error without it
    double least = -std::numeric_limits<double>::infinity();
    double most = std::numeric_limits<double>::infinity();
    bool log = false;
    std::optional<double> mean;  ///< if the column is standardised
    double deviation = 1;
    bool operator==(const Dense&) const = default;
  };
  enum class Values : uint8_t { kText, kInteger, kHex };
  enum class Encoding : uint8_t { kDictionary, kHash, kIntegers };
  struct List {
    std::optional<std::string> separator;  ///< of the items of a text
    int64_t cap = std::numeric_limits<int64_t>::max();
    bool keeps_last = false;
    bool operator==(const List&) const = default;
  };
  struct Sparse {
    std::string feature, column;
    Values values = Values::kText;
    Encoding encoding = Encoding::kDictionary;
    int64_t rows = std::numeric_limits<int64_t>::max();  ///< every id is less
    std::optional<std::string> fill;
    std::optional<int64_t> fill_integer;  ///< of integer values
    std::optional<List> list;
    size_t dictionary = 0;  ///< in `dictionaries`
    bool operator==(const Sparse&) const = default;
  };
  /// How the files were cut into records, where the schema says so.
  struct Log {
    std::string type;                  ///< csv, tsv, parquet or json
    std::optional<char> delimiter;     ///< of text
    std::optional<char> quote;         ///< '\0': there are no quotes
    std::vector<std::string> columns;  ///< of text without a header
  };
  /// Value k has the id k + 1. 0 stands for values that are not there.
  struct Dictionary {
    std::string name;
    bool of_texts = true;     ///< otherwise each value is the 8 bytes of an int64
    TextTable values{false};  ///< of `bytes`
  };

  Log log;
  std::vector<std::string> missing;  ///< texts that stand for a missing number
  std::vector<Dense> dense;          ///< in the order of a sample's numbers
  std::vector<Sparse> sparse;
  std::vector<Dictionary> dictionaries;
  std::unique_ptr<std::string> bytes;  ///< that the dictionaries' texts are in
};

/// Reads the bytes that datasets and checkpoints carry. A usage_error begins with `where`.
Preprocessing parse_preprocessing(std::string_view bytes, const std::string& where);

/// What `newer` makes of records in another way than `older`: "the dictionary of user". Empty if it
/// makes the same of every record that `older` knows all values of: values may have been appended
/// to dictionaries. Only these features are compared, and all dense columns.
std::string difference(const Preprocessing& newer, const Preprocessing& older,
                       const std::vector<std::string>& features);

/// The bytes that a file carries.
struct FilePreprocessing {
  std::string file;        ///< empty: none has any
  std::string_view bytes;  ///< which must stay
};

/// Throws a usage_error that names both files and what differs if ids of `older` need not mean the
/// same in `newer`. Without bytes in both there is nothing to compare.
void check_extends(const FilePreprocessing& newer, const FilePreprocessing& older,
                   const std::vector<std::string>& features);

/// The one of these that extends all others, whose dictionaries it may have grown from. A
/// usage_error names two that differ.
FilePreprocessing widest(const std::vector<FilePreprocessing>& all,
                         const std::vector<std::string>& features);

/// The values of a feature's dictionary that have these ids, as texts. None for ids without one,
/// and for features without a dictionary. Dictionaries of others are passed over.
std::vector<std::optional<std::string>> values_of_ids(std::string_view bytes,
                                                      const std::string& where,
                                                      const std::string& feature,
                                                      View<const int64_t> ids);

/// A line for each column, as `dlrm-data inspect` prints it.
std::string describe(const Preprocessing& preprocessing);

}  // namespace dlrm
