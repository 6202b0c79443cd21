#include <algorithm>

#include "dlrm/wire/message_bytes.h"

#include "replicated.h"

namespace dlrm {
namespace {

/// A rank's message: the rows of every table (int64), then the gradients of every table (fp32),
/// padded to 8 bytes. Counts travel ahead. The host reads counts and rows: CPUs alone.
class GatheredUpdate final : public ReplicatedUpdate {
 public:
  GatheredUpdate(Context& context, Ops& ops, ReplicatedList tables)
      : ops_(ops),
        local_(context, ops, std::move(tables)),
        merged_(context.device),
        comm_(context.comm.duplicate()),
        mine_(comm_->shared_memory(context.device), 0, "gradients of data-parallel tables"),
        all_(context.device, 0, "gradients of data-parallel tables"),
        steps_(context.device, 0, "row positions") {
    DLRM_CHECK(context.device.host_visible_memory());
    const auto world = static_cast<size_t>(comm_->size());
    my_counts_.resize(count());
    counts_.resize(world * count());
    count_bytes_.assign(world, static_cast<int64_t>(count() * sizeof(int64_t)));
    count_offsets_.resize(world);
    bytes_.resize(world);
    offsets_.resize(world);
    for (size_t p = 0; p < world; ++p) {
      count_offsets_[p] = static_cast<int64_t>(p) * count_bytes_[p];
    }
  }

  void group(const RoutedBatch& batch, Ops& ops) override { local_.group(batch, ops); }

  void start(const RoutedBatch& batch, MatrixView<float> de) override {
    for (size_t i = 0; i < count(); ++i) my_counts_[i] = local_.count(i);
    pending_ =
        comm_->start_allgatherv(my_counts_.data(), counts_.data(), count_bytes_, count_offsets_);
    stage_ = Stage::kCounts;
    fill_message(batch, de);
    bytes_sent_ += (comm_->size() - 1) * (count_bytes_[0] + message_bytes(my_counts_.data()));
  }

  void poll() override {
    if (stage_ == Stage::kIdle || !pending_.poll()) return;
    if (stage_ == Stage::kCounts) start_messages();
  }

  void finish(const OptimizerStep& step, const RoutedBatch&, MatrixView<float>) override {
    pending_.wait();
    if (stage_ == Stage::kCounts) start_messages();
    pending_.wait();
    stage_ = Stage::kIdle;
    prepare_merge();
    for (size_t i = 0; i < count(); ++i) merge(i, step);
  }

  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  enum class Stage : uint8_t { kIdle, kCounts, kMessages };

  size_t count() const { return local_.tables().size(); }
  int64_t width(size_t i) const { return local_.tables()[i]->width; }
  const int64_t* counts_of(size_t rank) const { return counts_.data() + rank * count(); }

  /// Where table i's rows and gradients start in the message of a rank with these counts.
  int64_t rows_at(const int64_t* counts, size_t i) const {
    int64_t rows = 0;
    for (size_t k = 0; k < i; ++k) rows += counts[k];
    return rows * static_cast<int64_t>(sizeof(int64_t));
  }
  int64_t gradients_at(const int64_t* counts, size_t i) const {
    int64_t elements = 0;
    for (size_t k = 0; k < i; ++k) elements += counts[k] * width(k);
    return rows_at(counts, count()) + elements * static_cast<int64_t>(sizeof(float));
  }
  int64_t message_bytes(const int64_t* counts) const {
    const int64_t rows = rows_at(counts, count());
    return pairs_message_bytes(0, rows / 8, (gradients_at(counts, count()) - rows) / 4);
  }

  void fill_message(const RoutedBatch& batch, MatrixView<float> de) {
    const int64_t* counts = my_counts_.data();
    mine_.reserve(static_cast<size_t>(message_bytes(counts)));
    for (size_t i = 0; i < count(); ++i) {
      const SegmentedRows& runs = local_.runs(i);
      auto* rows = reinterpret_cast<int64_t*>(mine_.data() + rows_at(counts, i));
      std::copy(runs.rows.begin(), runs.rows.begin() + counts[i], rows);
      auto* gradients = reinterpret_cast<float*>(mine_.data() + gradients_at(counts, i));
      ops_.embedding_bag_backward(runs, local_.gradients(i, batch, de),
                                  {gradients, counts[i], width(i)});
    }
  }

  void start_messages() {
    int64_t total = 0;
    for (size_t p = 0; p < bytes_.size(); ++p) {
      bytes_[p] = message_bytes(counts_of(p));
      offsets_[p] = total;
      total += bytes_[p];
    }
    all_.reserve(static_cast<size_t>(total));
    pending_ = comm_->start_allgatherv(mine_.data(), all_.data(), bytes_, offsets_);
    stage_ = Stage::kMessages;
  }

  void prepare_merge() {
    capacities_.assign(count(), 0);
    int64_t longest = 0;
    for (size_t p = 0; p < bytes_.size(); ++p) {
      for (size_t i = 0; i < count(); ++i) {
        capacities_[i] += counts_of(p)[i];
        longest = std::max(longest, counts_of(p)[i]);
      }
    }
    merged_.make_room(capacities_);
    const auto have = static_cast<int64_t>(steps_.size());
    if (longest + 1 <= have) return;
    steps_.reserve(static_cast<size_t>(longest + 1));
    for (size_t k = 0; k < steps_.size(); ++k) steps_[k] = static_cast<int64_t>(k);
  }

  /// Adds the ranks' gradients of table i in rank order and updates it.
  void merge(size_t i, const OptimizerStep& step) {
    groups_.clear();
    gradients_.clear();
    for (size_t p = 0; p < bytes_.size(); ++p) {
      const int64_t* counts = counts_of(p);
      const char* message = all_.data() + offsets_[p];
      groups_.push_back({reinterpret_cast<const int64_t*>(message + rows_at(counts, i)),
                         steps_.data(), counts[i], counts[i]});
      const auto* values = reinterpret_cast<const float*>(message + gradients_at(counts, i));
      gradients_.push_back({{values, counts[i], width(i)}, nullptr});
    }
    const ReplicatedTable& table = *local_.tables()[i];
    ops_.group_rows(groups_, table.rows, merged_[i]);
    ops_.embedding_bag_update(step, table.store->table(), merged_[i], gradients_);
  }

  Ops& ops_;
  LocalRuns local_;
  SegmentBuffers merged_;
  std::unique_ptr<Communicator> comm_;
  Array<char> mine_, all_;
  Array<int64_t> steps_;                     ///< 0, 1, 2, ...: the offsets of bags of one row
  std::vector<int64_t> my_counts_, counts_;  ///< unique rows by table; by rank and table
  std::vector<int64_t> count_bytes_, count_offsets_, bytes_, offsets_, capacities_;
  std::vector<IdGroup> groups_;
  std::vector<BagGradient> gradients_;
  Stage stage_ = Stage::kIdle;
  Pending pending_;
  int64_t bytes_sent_ = 0;
};

}  // namespace

std::unique_ptr<ReplicatedUpdate> make_gathered_update(Context& context, Ops& ops,
                                                       ReplicatedList tables) {
  return std::make_unique<GatheredUpdate>(context, ops, std::move(tables));
}

}  // namespace dlrm
