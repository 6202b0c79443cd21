#include "bag_pooling.h"

namespace dlrm {
namespace {

class LocalPooling final : public BagPooling {
 public:
  explicit LocalPooling(const EmbeddingLayout& layout) : layout_(layout) {}

  void begin(const RoutedBatch&) override {}
  Piece pooled(const RoutedBatch& batch, size_t block, size_t, const Matrix& e) override {
    const PooledBlock& place = layout_.owners[0].blocks[block];
    return {e.columns(place.e_column, place.width),
            batch.requester.scales[static_cast<size_t>(place.feature)]};
  }
  Piece gradient(const RoutedBatch& batch, size_t block, size_t piece, const Matrix& de) override {
    return pooled(batch, block, piece, de);
  }
  void start_return(const RoutedBatch&, int, Ops&, Stream&) override {}
  void finish_return(const RoutedBatch&, const Matrix&) override {}
  void start_backward(const RoutedBatch&, const Matrix&) override {}
  void finish_backward(const RoutedBatch&) override {}
  void poll() override {}
  int64_t pooled_bytes() const override { return 0; }
  int64_t gradient_bytes() const override { return 0; }

 private:
  const EmbeddingLayout& layout_;
};

}  // namespace

std::unique_ptr<BagPooling> make_local_pooling(const EmbeddingLayout& layout) {
  return std::make_unique<LocalPooling>(layout);
}

}  // namespace dlrm
