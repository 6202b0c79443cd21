#pragma once
#include <map>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/config/run_config.h"
#include "dlrm/core/tensor_shard.h"
#include "dlrm/data/samples.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "data/mapped_file.h"
#include "int8_rows.h"
#include "trained_model.h"

namespace dlrm::serve {

/// The tables of a model. Any number of threads may look up rows once they are filled.
class Tables {
 public:
  struct Table {
    std::string path;            // in the checkpoint
    RowTable rows;               // of int8 tables: the number and the width of the rows
    Buffer memory;               // empty if the table is mapped
    int64_t int8_row_bytes = 0;  // 0 if the table is not int8
  };
  struct Feature {
    size_t table = 0;
    Pooling pooling = Pooling::kSum;
    bool weighted = false;
    int64_t column = 0;  // of E
  };

  /// `threads`: that fill the tables.
  Tables(Device& device, const ModelConfig& model, TableType type, int threads);

  /// Maps the rows of the checkpoint, or takes memory for them. Call it once, before the others.
  void hold_rows(Communicator& comm, const std::string& checkpoint);
  /// What load_pieces fills: the tables that are not mapped.
  std::vector<TensorShard> shards();
  int64_t bytes() const;

  const Table& of(const Feature& feature) const { return tables_[feature.table]; }
  const std::vector<Feature>& features() const { return features_; }
  int64_t inputs() const { return inputs_; }  ///< features of a sample
  int64_t width() const { return width_; }    ///< of E
  /// Throws run_error if a mapped file can no longer be read.
  void check_pages() const;

 private:
  TensorShard shard_of(const Table& table) const;
  void write(const Table& table, int64_t first, int64_t count, const float* in) const;

  Device& device_;
  const TableType type_;
  const int threads_;
  const int64_t inputs_;
  std::map<std::string, MappedFile> files_;  // by path
  std::vector<Table> tables_;
  std::vector<Feature> features_;
  int64_t width_ = 0;
};

/// Lookups in tables by one thread at a time.
class TableLookup {
 public:
  TableLookup(const Tables& tables, Device& device, Ops& ops, int64_t batch_size);

  /// E [count, W] of samples [first, first + count), valid until the next call. count is at most
  /// the batch size. Throws run_error if a mapped file can no longer be read.
  MatrixView<float> operator()(const Samples& samples, int64_t first, int64_t count);

 private:
  /// Orders ids by feature and then by sample, as lookups need them. A bag that is that of the
  /// sample before, as candidates of one user have it, is left out.
  void gather(const Samples& samples, int64_t first, int64_t count);
  /// Copies what was pooled of each bag to all samples that have it.
  void spread(const MatrixView<float>& e) const;

  const Tables& tables_;
  Ops& ops_;
  Array<float> e_;
  struct Bags {
    int64_t count = 0;               // those that were not left out
    size_t offsets = 0, scales = 0;  // where theirs begin
  };
  std::vector<int64_t> ids_, offsets_;  // offsets [inputs, bags + 1]
  std::vector<float> scales_;           // [inputs, bags]
  std::vector<float> weights_;          // of ids_, if a feature has some
  std::vector<Bags> bags_;              // [inputs]
  std::vector<int64_t> bag_of_;         // [inputs, count]: the bag of a sample
  std::vector<BagGroup> groups_, max_groups_;
  std::vector<Int8Bags> int8_groups_;
};

}  // namespace dlrm::serve
