#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/nn/parameters.h"

namespace dlrm {

/// Called between layers. Moves exchanges in flight on.
using Progress = std::function<void()>;

/// What hidden layers, all but the last, have besides their activation.
struct HiddenLayers {
  double dropout = 0;       ///< rate of dropout after the activation; 0 = none
  uint64_t seed = 0;        ///< of its random numbers
  bool layer_norm = false;  ///< before the activation
};

/// A multilayer perceptron. Keeps the data that backward needs, for at most `max_batch` samples.
class Mlp {
 public:
  /// Layer i has the tensors <path>/<i>/weight [sizes[i], in] and <path>/<i>/bias [sizes[i]]. A
  /// path is, for example, "/mlp/top". Weights are drawn from N(0, 2/(in+out)), and biases from
  /// N(0, 1/out). `act` is applied after each layer but the last, `last_act` after the last.
  /// A layer norm has the tensors <path>/<i>/norm/weight [sizes[i]], of ones, and
  /// <path>/<i>/norm/bias [sizes[i]], of zeros. Without sizes the MLP is the identity. The key of a
  /// layer's dropout is stream_key(seed, <path>/<i>/dropout). `place` [max_batch, outputs()]: where
  /// the last layer writes y. Null: memory of its own.
  Mlp(Context& context, Ops& ops, Parameters& parameters, const std::string& path, int64_t inputs,
      const std::vector<int64_t>& sizes, Activation act, Activation last_act, DType compute,
      int64_t max_batch, const HiddenLayers& hidden = {}, Matrix place = {});

  /// y [b, outputs()], valid until the next forward. x [b, inputs] must stay until backward.
  /// `training`: the samples, for dropout. Null: nothing is dropped, as in a prediction.
  Matrix forward(Matrix x, const Progress& progress, const DropoutPlace* training = nullptr);
  /// Computes the gradients of the parameters, and dx [b, inputs] unless dx.data is null, from dy
  /// [b, outputs()], which is overwritten. The last forward was a training one. During a fused
  /// update it also applies the gradients. `added` [b, inputs] is added to dx, and may be dx. Null:
  /// nothing is. Only if there are layers.
  void backward(Matrix dy, Matrix dx, const Progress& progress, Matrix added = {});

  int64_t outputs() const { return layers_.empty() ? inputs_ : layers_.back().outputs; }
  /// Outputs of the last forward pass with the path of their layer. Serves to find the origin of a
  /// NaN.
  std::vector<std::pair<std::string, Matrix>> activations() const;

 private:
  struct Layer {
    std::string path;
    int weight = 0;
    int bias = 0;
    int64_t outputs = 0;
    Activation act = Activation::kNone;
    int64_t stride = 0;          // of z, and of y unless it has another place
    Matrix place;                // of y for the largest batch
    Buffer output, input, bits;  // act(z), z if its backward needs it, relu's mask
    Buffer gradient;             // of its output, unless layers share two
    Matrix x, y, z;              // of the last forward
    ReluMask mask;
    int norm = -1;  // its weight, after which its bias was added; -1: no layer norm
    Buffer sums;    // what the norm reads
    Array<float> norm_means, norm_inverse_spreads;
    Buffer kept;  // the output after dropout, if the layer has any
    uint64_t dropout_key = 0;
  };
  void drop(const Layer& layer, Matrix from, Matrix to);
  /// What the product of a layer writes: its output, or what its norm reads.
  Matrix sums_of(const Layer& layer) const;
  View<float> of_samples(const Array<float>& values, const Layer& layer) const {
    return values.view().first(static_cast<size_t>(layer.y.rows));
  }
  void normalise(const Layer& layer);
  /// dy of the layer's output becomes that of its sums.
  void normalise_backward(const Layer& layer, Matrix dy);
  void forward(Layer& layer);
  /// Memory for the gradient of the output of layer i, which is not the last.
  const Buffer& gradient_of(size_t i) const;
  LayerBelow below(const Layer& layer) const;

  Ops& ops_;
  Parameters& parameters_;
  int64_t inputs_;
  DType compute_;
  bool fused_;          // layers share passes if the execution supports it
  double dropout_;      // rate, of layers with a buffer `kept`
  DropoutPlace place_;  // of the last forward
  std::vector<Layer> layers_;
  // Layers share two buffers for gradients in turn. If gradients of weights are deferred, each
  // layer has its own.
  Buffer shared_gradients_[2];
};

}  // namespace dlrm
