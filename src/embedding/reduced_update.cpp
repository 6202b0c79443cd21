#include <algorithm>

#include "dlrm/wire/message_bytes.h"

#include "replicas.h"

namespace dlrm {
namespace {

class ReducedUpdate final : public ReplicaUpdate {
 public:
  ReducedUpdate(Context& context, Ops& ops, ReplicaList tables)
      : context_(context),
        ops_(ops),
        local_(context, ops, std::move(tables)),
        comm_(context.device_comm().duplicate()),
        sums_(context.device, 0, "gradients of data-parallel tables") {
    int64_t elements = 0, most_rows = 0;
    for (const Replica* table : local_.tables()) {
      starts_.push_back(elements);
      elements += table->rows * (table->width + 1);
      most_rows = std::max(most_rows, table->rows);
    }
    dense_ = Array<float>(comm_->shared_memory(context.device), static_cast<size_t>(elements),
                          "gradients of data-parallel tables");
    rows_ = Array<int64_t>(context.device, static_cast<size_t>(most_rows), "touched rows");
    touched_count_ = Array<int64_t>(context.device, 1, "touched rows");
  }

  void sort(const RoutedBatch& batch, Ops& ops) override { local_.sort(batch, ops); }

  void start(const RoutedBatch& batch, MatrixView<float> de) override {
    for (size_t i = 0; i < local_.tables().size(); ++i) {
      const int64_t count = local_.count(i);
      sums_.reserve(static_cast<size_t>(count * width(i)));
      const MatrixView<float> sums(sums_.data(), count, width(i));
      ops_.embedding_bag_backward(local_.segments(i), local_.gradients(i, batch, de), sums);
      ops_.scatter_rows(local_.segments(i).rows, local_.segments(i).count, sums, dense(i),
                        touched(i));
    }
    bytes_sent_ +=
        allreduce_sent_bytes(static_cast<int64_t>(dense_.size()), comm_->rank(), comm_->size());
    pending_ = comm_->start_allreduce<float>(dense_.view(), DType::kFloat32, &context_.stream);
  }

  void poll() override { pending_.poll(); }

  void finish(const OptimizerStep& step, const RoutedBatch&, MatrixView<float>) override {
    pending_.wait(context_.stream);
    for (size_t i = 0; i < local_.tables().size(); ++i) {
      const Replica& table = *local_.tables()[i];
      const View<int64_t> rows = rows_.first(static_cast<size_t>(table.rows));
      ops_.touched_rows(touched(i), rows, touched_count_.view());
      ops_.sparse_update(step, table.store->table(), rows, touched_count_.view(), dense(i),
                         /*by_row=*/true, {}, table.width);
    }
  }

  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  int64_t width(size_t i) const { return local_.tables()[i]->width; }
  int64_t rows(size_t i) const { return local_.tables()[i]->rows; }
  /// The gradients [rows, width] of table i, which are followed by the mask [rows].
  MatrixView<float> dense(size_t i) const {
    return {dense_.data() + starts_[i], rows(i), width(i)};
  }
  View<float> touched(size_t i) const {
    return {dense_.data() + starts_[i] + rows(i) * width(i), static_cast<size_t>(rows(i))};
  }

  Context& context_;
  Ops& ops_;
  ReplicaGradients local_;
  std::unique_ptr<Communicator> comm_;
  std::vector<int64_t> starts_;
  Array<float> sums_;   ///< one table's gradients by unique row
  Array<float> dense_;  ///< the reduced buffer: every table's gradients by row, and its mask
  Array<int64_t> rows_, touched_count_;
  Pending pending_;
  int64_t bytes_sent_ = 0;
};

}  // namespace

std::unique_ptr<ReplicaUpdate> make_reduced_update(Context& context, Ops& ops, ReplicaList tables) {
  return std::make_unique<ReducedUpdate>(context, ops, std::move(tables));
}

}  // namespace dlrm
