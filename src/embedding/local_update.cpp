#include "replicated.h"

namespace dlrm {
namespace {

class LocalUpdate final : public ReplicatedUpdate {
 public:
  LocalUpdate(Context& context, Ops& ops, ReplicatedList tables)
      : ops_(ops), local_(context, ops, std::move(tables)) {}

  void start(const RoutedBatch& batch, MatrixView<float>) override { local_.group(batch); }
  void poll() override {}
  void finish(const OptimizerStep& step, const RoutedBatch& batch, MatrixView<float> de) override {
    for (size_t i = 0; i < local_.tables().size(); ++i) {
      ops_.embedding_bag_update(step, local_.tables()[i]->store->table(), local_.runs(i),
                                local_.gradients(i, batch, de));
    }
  }
  int64_t bytes_sent() const override { return 0; }

 private:
  Ops& ops_;
  LocalRuns local_;
};

}  // namespace

std::unique_ptr<ReplicatedUpdate> make_local_update(Context& context, Ops& ops,
                                                    ReplicatedList tables) {
  return std::make_unique<LocalUpdate>(context, ops, std::move(tables));
}

}  // namespace dlrm
