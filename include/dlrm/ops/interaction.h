#pragma once
// Operations that combine the dense features x [b, D] with the embeddings e [b, F·D] of F features.
// b is the local batch. Matrices of one operation have one type, fp32 or bf16. e is fp32, and de
// may be.
#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"

namespace dlrm {

/// Dot interaction: z = [x, strict lower triangle of v vᵀ, row i, columns j < i] with
/// v = (x, e1..eF).
struct DotForward {
  Matrix x;                   ///< [b, D]
  MatrixView<const float> e;  ///< [b, F·D]
  Matrix z;                   ///< [b, D + (F+1)F/2]

  static constexpr const char* kName = "dot_forward";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.in("e", e), v.out("z", z, sum_of(x.cols));
  }
};

/// Gradients dx and de of the dot interaction from dz.
struct DotBackward {
  Matrix x;                   ///< [b, D]
  MatrixView<const float> e;  ///< [b, F·D]
  Matrix dz;                  ///< [b, D + (F+1)F/2]
  Matrix dx;                  ///< [b, D]
  MatrixView<float> de;       ///< [b, F·D]

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
  MatrixView<const float> e;  ///< [b, W]
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
  MatrixView<float> de;  ///< [b, W]

  static constexpr const char* kName = "average_pool_backward";
  template <class V>
  void operands(V& v) {
    v.in("dy", dy), v.out("de", de);
  }
};

/// y = x0 ⊙ u + x, all [b, n]. In a cross layer u = U(Vx) + bias.
struct CrossForward {
  Matrix x0, u, x, y;

  static constexpr const char* kName = "cross_forward";
  template <class V>
  void operands(V& v) {
    v.in("x0", x0), v.in("u", u), v.in("x", x), v.out("y", y, sum_of(2));
  }
};

/// du = x0 ⊙ dy, all [b, n]: the gradient of u in a cross layer. The layer's own part of the
/// gradient of x is dy itself. CrossInputBackward computes the gradient of x0.
struct CrossBackward {
  Matrix x0, dy, du;

  static constexpr const char* kName = "cross_backward";
  template <class V>
  void operands(V& v) {
    v.in("x0", x0), v.in("dy", dy), v.out("du", du);
  }
};

/// The gradient of x0 = [x, e] through L cross layers: [dx, de] = dy_0 + Σ_l u_l ⊙ dy_{l+1}. u_l is
/// u of layer l, dy_l the gradient of its input, and dy_L = dz that of the last layer's output.
/// Summed in fp32, in the order of l. An element is rounded once, to the type of dx or de.
struct CrossInputBackward {
  Matrix u;   ///< [L·b, n], layer by layer
  Matrix dy;  ///< [L·b, n], dy_0 first
  Matrix dz;  ///< [b, n]
  Matrix dx;  ///< [b, n - W]; not computed if it has no data
  Matrix de;  ///< [b, W]; fp32, or the type of dx

  int64_t layers() const { return dz.rows == 0 ? 0 : u.rows / dz.rows; }

  static constexpr const char* kName = "cross_input_backward";
  template <class V>
  void operands(V& v) {
    v.in("u", u), v.in("dy", dy), v.in("dz", dz);
    v.out("dx", dx, sum_of(layers() + 1)), v.out("de", de, sum_of(layers() + 1));
  }
};

/// z = [x, e, fm] with fm = Σ_{i<j} v_i · v_j = ½ Σ_d [(Σ_i v_i,d)² − Σ_i v_i,d²], v = (x, e1..eF).
struct FmForward {
  Matrix x;                   ///< [b, D]
  MatrixView<const float> e;  ///< [b, F·D]
  Matrix z;                   ///< [b, D + F·D + 1]

  static constexpr const char* kName = "fm_forward";
  template <class V>
  void operands(V& v) {
    v.in("x", x), v.in("e", e), v.out("z", z, sum_of(x.cols + e.cols));
  }
};

/// With g the gradient of fm, the last column of dz, and S = Σ_i v_i: the gradient of v_i is that
/// of its copy in z, plus g (S − v_i).
struct FmBackward {
  Matrix x;                   ///< [b, D]
  MatrixView<const float> e;  ///< [b, F·D]
  Matrix dz;                  ///< [b, D + F·D + 1]
  Matrix dx;                  ///< [b, D]; not computed if it has no data
  MatrixView<float> de;       ///< [b, F·D]

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
