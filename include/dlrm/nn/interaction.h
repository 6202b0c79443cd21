#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/nn/mlp.h"

namespace dlrm {

/// What joins the bottom MLP's output X and the pooled embeddings E into the top MLP's input.
class Interaction {
 public:
  virtual ~Interaction() = default;
  /// z [b, width()] in the compute type, valid until the next forward. x [b, D], e [b, W] must stay
  /// until backward.
  virtual Matrix forward(Matrix x, MatrixView<const float> e, const Progress& progress) = 0;
  /// From dz (may be overwritten): dx [b, D] (left out where dx.data is null) and de [b, W].
  virtual void backward(Matrix dz, Matrix dx, MatrixView<float> de, const Progress& progress) = 0;
  virtual int64_t width() const = 0;
  virtual std::vector<std::pair<std::string, Matrix>> activations() const = 0;
};

/// What every interaction is made with.
struct InteractionSetup {
  Context& context;
  Ops& ops;
  DType compute;
  int64_t max_batch;
  int64_t dense_width;      ///< of X
  int64_t embedding_width;  ///< W
};

/// [X, strict lower triangle of the products of (X, E1 .. EF)]; every feature as wide as X.
std::unique_ptr<Interaction> make_dot_interaction(const InteractionSetup& setup);

/// [X, E] or (dense_last) [E, X], E average-pooled with window and stride `window` where it is not
/// 0.
std::unique_ptr<Interaction> make_concat_interaction(const InteractionSetup& setup, bool dense_last,
                                                     int64_t window);

/// DCNv2's low-rank cross layers (Wang et al., "DCN V2", WWW 2021): x0 = [X, E]; x ← x0 ⊙ (U(Vx)+b)
/// + x. Tensors /cross/<i>/{v [rank, n], u [n, rank], bias [n]}, v and u drawn as weights, bias
/// zero.
std::unique_ptr<Interaction> make_cross_interaction(const InteractionSetup& setup,
                                                    Parameters& parameters, int64_t layers,
                                                    int64_t rank);

}  // namespace dlrm
