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
        comm_(context.device_comm().duplicate()) {
    int64_t elements = 0;
    for (const Replica* table : local_.tables()) elements += table->rows * (table->width + 1);
    dense_ = Array<float>(comm_->shared_memory(context.device), static_cast<size_t>(elements),
                          "gradients of data-parallel tables");
    float* next = dense_.data();
    for (const Replica* table : local_.tables()) {
      TableGradients gradients;
      gradients.rows = {next, table->rows, table->width};
      next += table->rows * table->width;
      gradients.touched = {next, static_cast<size_t>(table->rows)};
      next += table->rows;
      gradients_.push_back(gradients);
    }
    updates_.resize(gradients_.size());
  }

  void sort(const RoutedBatch& batch, Ops& ops) override { local_.sort(batch, ops); }

  void start(const RoutedBatch& batch, const Matrix& de) override {
    ops_.fill_zero(dense_.data(), static_cast<int64_t>(dense_.view().size_bytes()));
    ops_.sum_table_gradients(local_.updates(batch, de), gradients_);
    bytes_sent_ +=
        allreduce_sent_bytes(static_cast<int64_t>(dense_.size()), comm_->rank(), comm_->size());
    pending_ = comm_->start_allreduce<float>(dense_.view(), DType::kFloat32, &context_.stream);
  }

  void poll() override { pending_.poll(); }

  void finish(const OptimizerStep& step, const RoutedBatch&, const Matrix&) override {
    pending_.wait(context_.stream);
    for (size_t i = 0; i < gradients_.size(); ++i) {
      updates_[i] = {local_.tables()[i]->store->table(), gradients_[i]};
    }
    ops_.update_tables(step, updates_);
  }

  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  Context& context_;
  Ops& ops_;
  ReplicaGradients local_;
  std::unique_ptr<Communicator> comm_;
  Array<float> dense_;  ///< the reduced buffer: every table's gradients by row, and its flags
  std::vector<TableGradients> gradients_;  ///< by table, in dense_
  std::vector<TableUpdate> updates_;
  Pending pending_;
  int64_t bytes_sent_ = 0;
};

}  // namespace

std::unique_ptr<ReplicaUpdate> make_reduced_update(Context& context, Ops& ops, ReplicaList tables) {
  return std::make_unique<ReducedUpdate>(context, ops, std::move(tables));
}

}  // namespace dlrm
