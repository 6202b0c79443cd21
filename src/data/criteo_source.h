#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/criteo_parse.h"

#include "indexed_text.h"
#include "scratch_pool.h"

namespace dlrm {

/// Batches of text in Criteo's format, in its order. Features C1 to C26 are hashed into the rows of
/// their tables: the samples of a dataset that `dlrm-data criteo --max-rows` makes of the text.
/// Every call of load() reads and parses the lines of its own batch.
class CriteoSource : public BatchSource {
 public:
  /// `same_text`: a source of the same files that is not used any more, whose index of them this
  /// one takes over. Null: the files are read to index them.
  CriteoSource(const RunConfig& config, const std::vector<std::string>& paths, int rank, int world,
               const CriteoSource* same_text = nullptr);

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override;
  std::string describe() const override;

 private:
  struct Column {
    size_t category;  // 0 is C1
    int64_t rows;
  };
  struct Scratch {
    TextChunk text;
    CriteoBlock rows;
  };

  void add_column(const TableConfig& table, const FeatureConfig& feature);
  void open(const std::vector<std::string>& paths, int workers, int64_t kept);
  void read_lines(Range samples, TextChunk& text) const;
  void fill(const CriteoBlock& rows, Batch& batch) const;
  [[noreturn]] void report(int64_t sample, const std::string& reason) const;
  size_t file_of(int64_t sample) const;

  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<IndexedText>> files_;
  std::vector<int64_t> starts_{0};  // [files + 1] number of samples before each file
  BatchPlan plan_;
  int rank_, world_;
  std::vector<Column> columns_;
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace dlrm
