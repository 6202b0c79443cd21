#pragma once
// Operations that combine the dense features x [b, D] with the embeddings e [b, F·D] of F features.
// b is the local batch. Matrices of one operation have one type, fp32 or bf16. Sums are in fp32 and
// rounded once.
#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"

namespace dlrm {

/// Dot interaction: z = [x, strict lower triangle of v vᵀ, row i, columns j < i] with
/// v = (x, e1..eF).
struct DotForward {
  Matrix x;  ///< [b, D]
  Matrix e;  ///< [b, F·D]
  Matrix z;  ///< [b, D + (F+1)F/2]

  static constexpr const char* kName = "dot_forward";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.in("e", e), v.out("z", z, sum_of(x.cols));
  }
};

/// Gradients dx and de of the dot interaction from dz.
struct DotBackward {
  Matrix x;   ///< [b, D]
  Matrix e;   ///< [b, F·D]
  Matrix dz;  ///< [b, D + (F+1)F/2]
  Matrix dx;  ///< [b, D]
  Matrix de;  ///< [b, F·D]

  static constexpr const char* kName = "dot_backward";
  template <class V>
  void operands(V& v) {
    const int64_t terms = x.cols == 0 ? 1 : 1 + e.cols / x.cols;
    v.in("x", x), v.in("e", e), v.in("dz", dz);
    v.out("dx", dx, sum_of(terms)), v.out("de", de, sum_of(terms));
  }
};

/// y[:, k] = mean of e[:, k·window - left ... k·window - left + window - 1] over the columns that
/// exist; left = (ceil(W/window)·window - W)/2 rounded down (TensorFlow's "same").
struct AveragePoolForward {
  Matrix e;  ///< [b, W]
  int64_t window;
  Matrix y;  ///< [b, ceil(W/window)]

  static constexpr const char* kName = "average_pool_forward";
  template <class V>
  void operands(V& v) {
    v.in("e", e), v.out("y", y, sum_of(window));
  }
};

struct AveragePoolBackward {
  Matrix dy;  ///< [b, ceil(W/window)]
  int64_t window;
  Matrix de;  ///< [b, W]

  static constexpr const char* kName = "average_pool_backward";
  template <class V>
  void operands(V& v) {
    v.in("dy", dy), v.out("de", de);
  }
};

// Cross layers. With x_0 the input, layer l < L computes u_l = U_l(V_l x_l) + bias_l and
// x_{l+1} = x_0 ⊙ u_l + x_l. So x_{l+1} = x_0 ⊙ t_l + x_0 with t_l = u_0 + ... + u_l: a product
// adds t_{l-1} to u_l, and a pass of a layer reads two matrices. Backward, dy_l is the gradient of
// x_l.

/// y = x0 ⊙ t + x0, all [b, n].
struct CrossForward {
  Matrix x0, t, y;

  static constexpr const char* kName = "cross_forward";
  template <class V>
  void operands(V& v) {
    v.in("x0", x0), v.in("t", t), v.out("y", y, sum_of(2));
  }
};

/// du = x0 ⊙ dy, all [b, n]: the gradient of u_l, from that of x_{l+1}.
struct CrossBackward {
  Matrix x0, dy, du;

  static constexpr const char* kName = "cross_backward";
  template <class V>
  void operands(V& v) {
    v.in("x0", x0), v.in("dy", dy), v.out("du", du);
  }
};

/// The last pass of the backward of L cross layers: du = x0 ⊙ dy_1 of the first layer, and
/// sum = dy_1 + Σ_l u_l ⊙ dy_{l+1}, u_l = t_l - t_{l-1}, u_0 = t_0. The gradient of x0 is the sum
/// and the gradient through the first layer's products. Summed in fp32, in the order of l, and
/// rounded once.
struct CrossInputBackward {
  Matrix x0;   ///< [b, n]
  Matrix t;    ///< [L·b, n], t_0 first
  Matrix dy;   ///< [(L-1)·b, n], dy_1 first; not read if L is 1
  Matrix dz;   ///< [b, n], dy_L
  Matrix du;   ///< [b, n]
  Matrix sum;  ///< [b, n]

  int64_t layers() const { return dz.rows == 0 ? 0 : t.rows / dz.rows; }

  static constexpr const char* kName = "cross_input_backward";
  template <class V>
  void operands(V& v) {
    v.in("x0", x0), v.in("t", t), v.in("dz", dz);
    if (layers() > 1) v.in("dy", dy);
    v.out("du", du), v.out("sum", sum, {.terms = 2 * layers() + 1});
  }
};

/// z = [x, e, fm] with fm = Σ_{i<j} v_i · v_j = ½ Σ_d [(Σ_i v_i,d)² − Σ_i v_i,d²], v = (x, e1..eF).
struct FmForward {
  Matrix x;  ///< [b, D]
  Matrix e;  ///< [b, F·D]
  Matrix z;  ///< [b, D + F·D + 1]

  static constexpr const char* kName = "fm_forward";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.in("e", e), v.out("z", z, sum_of(x.cols + e.cols));
  }
};

/// With g the gradient of fm, the last column of dz, and S = Σ_i v_i: the gradient of v_i is that
/// of its copy in z, plus g (S − v_i).
struct FmBackward {
  Matrix x;   ///< [b, D]
  Matrix e;   ///< [b, F·D]
  Matrix dz;  ///< [b, D + F·D + 1]
  Matrix dx;  ///< [b, D]; not computed if it has no data
  Matrix de;  ///< [b, F·D]

  static constexpr const char* kName = "fm_backward";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.in("e", e), v.in("dz", dz);
    v.out("dx", dx, sum_of(2)), v.out("de", de, sum_of(2));
  }
};

#define DLRM_INTERACTION_OPERATIONS(X) \
  X(DotForward)                        \
  X(DotBackward)                       \
  X(AveragePoolForward)                \
  X(AveragePoolBackward)               \
  X(CrossForward)                      \
  X(CrossBackward)                     \
  X(CrossInputBackward)                \
  X(FmForward)                         \
  X(FmBackward)

}  // namespace dlrm
