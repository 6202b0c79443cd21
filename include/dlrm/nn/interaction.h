#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/config/interaction_config.h"
#include "dlrm/nn/mlp.h"

namespace dlrm {

/// Combines the bottom MLP's output X [b, D] and the pooled embeddings E [b, W] into Z, the input
/// of the top MLP. dlrm/config/interactions has the formula and the width of each interaction. All
/// matrices are in the compute type.
class Interaction {
 public:
  virtual ~Interaction() = default;
  /// Where E may be written before forward(), so that it does not copy E: [max_batch, W]. The first
  /// rows are E's. Empty if the interaction reads E at any place.
  virtual Matrix place_of_embeddings() const { return {}; }
  /// Where backward() may write dE so that it does not copy it: [max_batch, W]. `dz`: the memory of
  /// dz [max_batch, width()] of every backward(). Empty if the interaction writes dE to any place.
  virtual Matrix place_of_gradients(const Matrix& dz) {
    static_cast<void>(dz);
    return {};
  }
  /// Z [b, width()], valid until the next forward. x and e must stay until backward.
  virtual Matrix forward(Matrix x, Matrix e, const Progress& progress) = 0;
  /// Computes de [b, W], and dx [b, D] unless dx.data is null, from dz [b, width()]. May overwrite
  /// dz.
  virtual void backward(Matrix dz, Matrix dx, Matrix de, const Progress& progress) = 0;
  virtual int64_t width() const = 0;
  /// Outputs of the last forward pass, with the path of the layer that computed each. Serves to
  /// find the origin of a NaN.
  virtual std::vector<std::pair<std::string, Matrix>> activations() const = 0;
};

/// The arguments that every interaction is made with.
struct InteractionSetup {
  Context& context;
  Ops& ops;
  Parameters& parameters;  ///< receives the interaction's tensors
  DType compute;
  int64_t max_batch;
  InteractionInputs inputs;
  std::vector<FeatureVectors> projected = {};  ///< ModelConfig::projected_features()
};

std::unique_ptr<Interaction> make_interaction(const DotConfig&, const InteractionSetup&);
std::unique_ptr<Interaction> make_interaction(const ConcatConfig&, const InteractionSetup&);
/// Tensors /cross/<i>/{v [rank, n], u [n, rank], bias [n]}, or {w [n, n], bias [n]} of full rank:
/// v, u and w are drawn as weights, biases are zero.
std::unique_ptr<Interaction> make_interaction(const CrossConfig&, const InteractionSetup&);
std::unique_ptr<Interaction> make_interaction(const FmConfig&, const InteractionSetup&);

/// With projections E is [b, Σ widths of setup.projected]. Tensors
/// /projection/<feature>/weight [inputs.embeddings/F, width], drawn as weights, of the features of
/// another width.
std::unique_ptr<Interaction> make_interaction(const InteractionConfig& config,
                                              const InteractionSetup& setup);

}  // namespace dlrm
