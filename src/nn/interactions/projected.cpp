#include <algorithm>
#include <cmath>

#include "dlrm/nn/interaction.h"
#include "dlrm/nn/matrix_stride.h"

namespace dlrm {
namespace {

/// Projects features to one width before another interaction combines them: E_f -> P_f E_f. Those
/// that have the width already are copied.
class Projected final : public Interaction {
 public:
  Projected(std::unique_ptr<Interaction> interaction, const InteractionSetup& setup,
            std::vector<int> tensors)
      : interaction_(std::move(interaction)),
        ops_(setup.ops),
        parameters_(setup.parameters),
        device_(setup.context.device),
        compute_(setup.compute),
        max_batch_(setup.max_batch),
        columns_(setup.inputs.embeddings),
        width_(columns_ / setup.inputs.features) {
    int64_t from = 0;
    for (size_t f = 0; f < tensors.size(); ++f) {
      const int64_t width = setup.projected[f].width, to = static_cast<int64_t>(f) * width_;
      // Neighbours that are copied are copied together.
      const bool joins = tensors[f] < 0 && !parts_.empty() && parts_.back().tensor < 0;
      if (joins) {
        parts_.back().width += width;
      } else {
        parts_.push_back({tensors[f], from, width, to});
      }
      from += width;
    }
    const auto elements = static_cast<size_t>(max_batch_ * matrix_stride(device_, columns_));
    vectors_ = Buffer(device_, elements * size_of(compute_), "projected vectors");
    gradients_ = Buffer(device_, elements * size_of(compute_), "projected vectors");
  }

  Matrix forward(Matrix x, Matrix e, const Progress& progress) override {
    e_ = e;
    const Matrix all = at(vectors_);
    for (const Part& part : parts_) {
      const Matrix from = e.columns(part.from, part.width);
      if (part.tensor < 0) {
        ops_.convert(from, all.columns(part.to, part.width));
        continue;
      }
      ops_.linear_forward(from, parameters_.weight(part.tensor), {}, Activation::kNone,
                          all.columns(part.to, width_), {});
      progress();
    }
    return interaction_->forward(x, all, progress);
  }

  void backward(Matrix dz, Matrix dx, Matrix de, const Progress& progress) override {
    const Matrix all = at(gradients_);
    interaction_->backward(dz, dx, all, progress);
    for (size_t i = parts_.size(); i-- > 0;) {
      const Part& part = parts_[i];
      const Matrix to = de.columns(part.from, part.width);
      if (part.tensor < 0) {
        ops_.convert(all.columns(part.to, part.width), to);
        continue;
      }
      LinearBackward layer;
      layer.dy = all.columns(part.to, width_);
      layer.x = e_.columns(part.from, part.width);
      layer.w = parameters_.weight(part.tensor);
      layer.dw = parameters_.weight_gradient(part.tensor);
      layer.dx = to;
      parameters_.linear_backward_of(layer, part.tensor);
      parameters_.gradients_ready_from(part.tensor);
      progress();
    }
  }

  int64_t width() const override { return interaction_->width(); }
  std::vector<std::pair<std::string, Matrix>> activations() const override {
    std::vector<std::pair<std::string, Matrix>> all = {{"/projection", at(vectors_)}};
    for (auto& output : interaction_->activations()) all.push_back(output);
    return all;
  }

 private:
  /// Columns [from, from + width) of E, which become columns from `to` on.
  struct Part {
    int tensor;  // -1: they are copied
    int64_t from, width, to;
  };

  Matrix at(const Buffer& buffer) const {
    return {buffer.data(), compute_, e_.rows, columns_, matrix_stride(device_, columns_)};
  }

  std::unique_ptr<Interaction> interaction_;
  Ops& ops_;
  Parameters& parameters_;
  Device& device_;
  DType compute_;
  int64_t max_batch_, columns_, width_;
  std::vector<Part> parts_;
  Buffer vectors_, gradients_;
  Matrix e_;
};

}  // namespace

std::unique_ptr<Interaction> make_interaction(const InteractionConfig& config,
                                              const InteractionSetup& setup) {
  // Tensors are added in forward order.
  std::vector<int> tensors;
  for (const auto& [feature, width] : setup.projected) {
    const int64_t to = setup.inputs.embeddings / setup.inputs.features;
    const double deviation = std::sqrt(2.0 / static_cast<double>(width + to));
    tensors.push_back(width == to ? -1
                                  : setup.parameters.add("/projection/" + feature + "/weight", to,
                                                         width, deviation));
  }
  auto interaction = std::visit([&](const auto& c) { return make_interaction(c, setup); }, config);
  if (tensors.empty()) return interaction;
  return std::make_unique<Projected>(std::move(interaction), setup, std::move(tensors));
}

}  // namespace dlrm
