#include "replicas.h"

namespace dlrm {
namespace {

class LocalReplicaUpdate final : public ReplicaUpdate {
 public:
  LocalReplicaUpdate(Context& context, Ops& ops, ReplicaList tables)
      : local_(context, ops, std::move(tables)) {}

  void sort(const RoutedBatch& batch, Ops& ops) override { local_.sort(batch, ops); }
  void start(const RoutedBatch&, const Matrix&) override {}
  void poll() override {}
  void finish(const OptimizerStep& step, const RoutedBatch& batch, const Matrix& de) override {
    local_.update(step, batch, de);
  }
  int64_t bytes_sent() const override { return 0; }

 private:
  ReplicaGradients local_;
};

}  // namespace

std::unique_ptr<ReplicaUpdate> make_local_update(Context& context, Ops& ops, ReplicaList tables) {
  return std::make_unique<LocalReplicaUpdate>(context, ops, std::move(tables));
}

}  // namespace dlrm
