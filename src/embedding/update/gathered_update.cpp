#include <algorithm>

#include "embedding/pooling/pair_exchange.h"
#include "replicas.h"

namespace dlrm {
namespace {

std::vector<int64_t> widths_of(const ReplicaList& tables) {
  std::vector<int64_t> widths;
  for (const Replica* table : tables) widths.push_back(table->width);
  return widths;
}

class GatheredUpdate final : public ReplicaUpdate {
 public:
  GatheredUpdate(Context& context, Ops& ops, const ReplicaList& tables)
      : ops_(ops),
        local_(context, ops, tables),
        exchange_(context, widths_of(tables)),
        merged_(context.device),
        steps_(context.device, 0, "row positions") {
    counts_.resize(tables.size());
  }

  void sort(const RoutedBatch& batch, Ops& ops) override { local_.sort(batch, ops); }

  void start(const RoutedBatch& batch, const Matrix& de) override {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] = local_.count(i);
    exchange_.start(counts_);
    for (size_t i = 0; i < counts_.size(); ++i) {
      const SegmentedRows& segments = local_.segments(i);
      const PairExchange::Pairs mine = exchange_.mine(i);
      std::copy_n(segments.rows.begin(), mine.count, mine.rows);
      ops_.embedding_bag_backward(segments, local_.gradients(i, batch, de),
                                  {mine.gradients, mine.count, local_.tables()[i]->width});
    }
  }

  void poll() override { exchange_.poll(); }

  void finish(const OptimizerStep& step, const RoutedBatch&, const Matrix&) override {
    exchange_.finish();
    reserve_merged();
    for (size_t i = 0; i < counts_.size(); ++i) merge(i, step);
  }

  int64_t bytes_sent() const override { return exchange_.bytes_sent(); }

 private:
  void reserve_merged() {
    counts_.assign(counts_.size(), 0);
    int64_t longest = 0;
    for (size_t p = 0; p < exchange_.world(); ++p) {
      for (size_t i = 0; i < counts_.size(); ++i) {
        const int64_t count = exchange_.of_rank(p, i).count;
        counts_[i] += count;
        longest = std::max(longest, count);
      }
    }
    merged_.reserve(counts_);
    const auto have = static_cast<int64_t>(steps_.size());
    if (longest + 1 <= have) return;
    steps_.reserve(static_cast<size_t>(longest + 1));
    for (size_t k = 0; k < steps_.size(); ++k) steps_[k] = static_cast<int64_t>(k);
  }

  /// Adds the ranks' gradients of table i in rank order and updates it.
  void merge(size_t i, const OptimizerStep& step) {
    const Replica& table = *local_.tables()[i];
    groups_.clear();
    gradients_.clear();
    for (size_t p = 0; p < exchange_.world(); ++p) {
      const PairExchange::Pairs pairs = exchange_.of_rank(p, i);
      groups_.push_back({pairs.rows, steps_.data(), pairs.count, pairs.count});
      gradients_.push_back({MatrixView<float>(pairs.gradients, pairs.count, table.width), nullptr});
    }
    ops_.group_rows(groups_, table.rows, merged_[i]);
    ops_.embedding_bag_update(step, table.store->table(), merged_[i], gradients_);
  }

  Ops& ops_;
  ReplicaGradients local_;
  PairExchange exchange_;
  SegmentBuffers merged_;
  Array<int64_t> steps_;         ///< 0, 1, 2, ...: the offsets of bags of one row
  std::vector<int64_t> counts_;  ///< unique rows by table: of this rank, or the sum of all ranks
  std::vector<IdGroup> groups_;
  std::vector<BagGradient> gradients_;
};

}  // namespace

std::unique_ptr<ReplicaUpdate> make_gathered_update(Context& context, Ops& ops,
                                                    ReplicaList tables) {
  return std::make_unique<GatheredUpdate>(context, ops, tables);
}

}  // namespace dlrm
