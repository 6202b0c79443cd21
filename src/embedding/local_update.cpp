#include "replicated.h"

namespace dlrm {
namespace {

class LocalUpdate final : public ReplicatedUpdate {
 public:
  LocalUpdate(Context& context, Ops& ops, ReplicatedList tables)
      : local_(context, ops, std::move(tables)) {}

  void group(const RoutedBatch& batch, Ops& ops) override { local_.group(batch, ops); }
  void start(const RoutedBatch&, MatrixView<float>) override {}
  void poll() override {}
  void finish(const OptimizerStep& step, const RoutedBatch& batch, MatrixView<float> de) override {
    local_.update(step, batch, de);
  }
  int64_t bytes_sent() const override { return 0; }

 private:
  LocalRuns local_;
};

}  // namespace

std::unique_ptr<ReplicatedUpdate> make_local_update(Context& context, Ops& ops,
                                                    ReplicatedList tables) {
  return std::make_unique<LocalUpdate>(context, ops, std::move(tables));
}

}  // namespace dlrm
