#pragma once
#include <string>
#include <vector>

#include "dlrm/ops/ops.h"

namespace dlrm::reference {

/// Each operation as its formula says: fp64 loops in one thread, stored values rounded once.
class ReferenceOps : public Ops {
 public:
  std::string name() const override { return "reference"; }
  int threads() const override { return 1; }

  DLRM_OPERATIONS(DLRM_OVERRIDE)

  void linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                      Matrix z) override;
  void linear_backward_input(Matrix dz, Matrix w, Matrix dx) override;
  void linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                              View<float> dbias) override;
  void activation_backward(Act act, Matrix y, Matrix z, Matrix dy) override;

  void bce_with_logits(Matrix logits, View<const float> labels, float scale, View<double> loss,
                       Matrix dlogits) override;
  void sigmoid(Matrix logits, View<float> p) override;

  void embedding_bag_forward(View<const BagGroup> groups) override;
  void group_rows(View<const IdGroup> groups, int64_t rows, SegmentedRows runs) override;
  void embedding_bag_backward(SegmentedRows runs, View<const BagGradient> gradients,
                              MatrixView<float> grads) override;
  void row_square_sums(View<const int64_t> count, MatrixView<const float> grads,
                       View<float> sums) override;
  void sparse_update(const OptimizerStep& step, const RowTable& table, View<const int64_t> rows,
                     View<const int64_t> count, MatrixView<const float> grads, bool by_row,
                     View<const float> square_sums, int64_t full_width) override;
  void embedding_bag_update(const OptimizerStep& step, const RowTable& table, SegmentedRows runs,
                            View<const BagGradient> gradients) override;
  void scatter_rows(View<const int64_t> rows, View<const int64_t> count,
                    MatrixView<const float> grads, MatrixView<float> dense,
                    View<float> touched) override;
  void touched_rows(View<const float> touched, View<int64_t> rows, View<int64_t> count) override;

  void copy_blocks(View<const BlockCopy> blocks) override;
  void convert(Matrix x, Matrix y) override;
  void add(Matrix x, Matrix y) override;
  void fill_zero(void* data, int64_t bytes) override;
  void find_non_finite(Matrix x, View<float> bad) override;

  void dense_update(const OptimizerStep& step, View<float> w, View<const float> g, View<float> s1,
                    View<float> s2, View<BFloat16> copy) override;
  void fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                    const RowTable& table) override;

 private:
  std::vector<float> row_;  // one row's summed gradient
};

}  // namespace dlrm::reference
