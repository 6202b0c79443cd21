#include "pooled_path.h"

namespace dlrm {
namespace {

class DirectPath final : public PooledPath {
 public:
  explicit DirectPath(const EmbeddingLayout& layout) : layout_(layout) {}

  void begin(const RoutedBatch&) override {}
  Place pooled(const RoutedBatch& batch, size_t block, size_t, MatrixView<float> e) override {
    const PooledBlock& place = layout_.owners[0].blocks[block];
    return {e.columns(place.e_column, place.width),
            batch.requester.scales[static_cast<size_t>(place.feature)]};
  }
  Place gradient(const RoutedBatch& batch, size_t block, size_t piece,
                 MatrixView<float> de) override {
    return pooled(batch, block, piece, de);
  }
  void start_return(const RoutedBatch&, Ops&, Stream&) override {}
  void finish_return(const RoutedBatch&, MatrixView<float>) override {}
  void start_backward(const RoutedBatch&, MatrixView<float>) override {}
  void finish_backward(const RoutedBatch&) override {}
  void poll() override {}
  int64_t pooled_bytes() const override { return 0; }
  int64_t gradient_bytes() const override { return 0; }

 private:
  const EmbeddingLayout& layout_;
};

}  // namespace

bool direct_path_serves(const EmbeddingLayout& layout) {
  return layout.owners.size() == 1 && layout.rows_uncut();
}

std::unique_ptr<PooledPath> make_direct_path(const EmbeddingLayout& layout) {
  return std::make_unique<DirectPath>(layout);
}

}  // namespace dlrm
