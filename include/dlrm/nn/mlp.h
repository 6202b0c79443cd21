#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/nn/parameters.h"

namespace dlrm {

/// Called between layers, so that exchanges in flight move on.
using Progress = std::function<void()>;

/// Linear layers in a row, each with the activation but perhaps the last. Keeps what backward
/// needs, for at most `max_batch` samples.
class Mlp {
 public:
  /// `path` "/mlp/top"; layer i has tensors <path>/<i>/weight [sizes[i], in] and <path>/<i>/bias.
  /// Weights N(0, 2/(in+out)), biases N(0, 1/out). No sizes: the identity.
  Mlp(Context& context, Ops& ops, Parameters& parameters, const std::string& path, int64_t inputs,
      const std::vector<int64_t>& sizes, Activation act, Activation last_act, DType compute,
      int64_t max_batch);

  /// y [b, outputs()], valid until the next forward. x [b, inputs] must stay until backward.
  Matrix forward(Matrix x, const Progress& progress);
  /// From dy [b, outputs()] (overwritten): the parameters' gradients (applied where parameters do
  /// so at once), and dx unless dx.data is null.
  void backward(Matrix dy, Matrix dx, const Progress& progress);

  int64_t outputs() const { return layers_.empty() ? inputs_ : layers_.back().outputs; }
  /// Layer outputs of the last forward, for the search of a NaN's origin: (path, value).
  std::vector<std::pair<std::string, Matrix>> activations() const;

 private:
  struct Layer {
    std::string path;
    int weight = 0;
    int bias = 0;
    int64_t outputs = 0;
    Activation act = Activation::kNone;
    int64_t stride = 0;          // of y and z
    Buffer output, input, bits;  // act(z), z where its backward needs it, relu's mask
    Matrix x, y, z;              // of the last forward
    ReluMask mask;
  };
  void forward(Layer& layer);
  LayerBelow below(const Layer& layer) const;

  Ops& ops_;
  Parameters& parameters_;
  int64_t inputs_;
  DType compute_;
  bool fused_;  // layers share passes where the execution can
  std::vector<Layer> layers_;
  Buffer gradient_[2];  // in turn, the gradient of a layer's output and of its input
};

}  // namespace dlrm
