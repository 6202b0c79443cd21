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
    for (const Replica* table : local_.tables()) elements_ += table->rows * (table->width + 1);
    updates_.resize(local_.tables().size());
    // On a device sum_gradients_in() may follow.
    if (!context.device.asynchronous()) allocate();
  }

  void sort(const RoutedBatch& batch, Ops& ops) override { local_.sort(batch, ops); }

  void start(const RoutedBatch& batch, const Matrix& de) override {
    if (gradients_.empty()) allocate();
    ops_.fill_zero(dense_.data(), static_cast<int64_t>(dense_.size_bytes()));
    ops_.sum_table_gradients(local_.updates(batch, de), gradients_);
    bytes_sent_ += allreduce_sent_bytes(elements_, comm_->rank(), comm_->size());
    if (own_.size() == 0) return;  // the caller sums them over the ranks
    pending_ = comm_->start_allreduce<float>(dense_, DType::kFloat32, &context_.stream);
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
  int64_t summed_gradients() const override { return elements_; }

  void sum_gradients_in(View<float> place) override {
    dense_ = place;
    gradients_.clear();
    float* next = dense_.data();
    for (const Replica* table : local_.tables()) {
      TableGradients gradients;
      gradients.rows = {next, table->rows, table->width};
      next += table->rows * table->width;
      gradients.touched = {next, static_cast<size_t>(table->rows)};
      next += table->rows;
      gradients_.push_back(gradients);
    }
  }

 private:
  void allocate() {
    own_ = Array<float>(comm_->shared_memory(context_.device), static_cast<size_t>(elements_),
                        "gradients of data-parallel tables");
    sum_gradients_in(own_.view());
  }

  Context& context_;
  Ops& ops_;
  ReplicaGradients local_;
  std::unique_ptr<Communicator> comm_;
  int64_t elements_ = 0;
  Array<float> own_;   ///< empty if the caller has a place
  View<float> dense_;  ///< the reduced buffer: every table's gradients by row, and its flags
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
