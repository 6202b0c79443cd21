// Linear layers. cuBLASLt computes products and fuses as much as it supports. Kernels do the rest.
#include "cuda/cuda_ops.h"
#include "cuda/parts.h"
#include "cuda/products.h"
#include "kernels/activation.h"
#include "kernels/column_sums.h"
#include "kernels/elementwise.h"
#include "kernels/one_output.h"

namespace dlrm {
namespace {

using cuda::Epilogue;
using cuda::Product;

Matrix row_matrix(const void* data, DType type, size_t size) {
  return {const_cast<void*>(data), type, 1, static_cast<int64_t>(size)};
}

}  // namespace

void CudaOps::run(const LinearForward& l) {
  if (l.mask) l.mask->written = false;
  if (l.y.rows == 0 || l.y.cols == 0) return;
  const Matrix kept = needs_input(l.act) ? l.z : Matrix();
  const Matrix sums = kept.data ? kept : l.y;  // x wᵀ + bias, unless the activation is fused
  const float* bias = l.bias.empty() ? nullptr : l.bias.data();
  if (l.x.cols == 0) {
    kernels::clear(sums, native_);
    return kernels::activate(l.act, sums, bias, kept, l.y, native_);
  }
  if (l.y.cols == 1 && !l.added.data) {
    kernels::one_output_forward(l.x, l.w, bias, sums, native_);
    return activate(l.act, sums, l.y);
  }
  Products& products = parts_->products;
  Product product =
      products.aligned({.a = l.x, .b = l.w, .d = sums, .transpose_b = true}, Products::kMain);
  product.c = l.added;
  if (l.bias.empty()) {
    products.run(product, Products::kMain);
    if (l.act != Activation::kNone) kernels::activate(l.act, sums, nullptr, kept, l.y, native_);
    return;
  }
  product.epilogue = Epilogue::kBias;
  product.bias = const_cast<float*>(bias);
  if (l.y.type != DType::kFloat32) {
    // The library only adds a bias of the result's type.
    product.bias = const_cast<BFloat16*>(l.rounded_bias.data());
    if (l.rounded_bias.empty()) {
      product.bias = parts_->scratch.bytes("bias in bf16", l.bias.size() * size_of(l.y.type));
      kernels::convert(row_matrix(bias, DType::kFloat32, l.bias.size()),
                       row_matrix(product.bias, l.y.type, l.bias.size()), native_);
    }
  }
  if (fused_forward(l, product, kept)) return;
  if (products.run_fused(product, Products::kMain)) return activate(l.act, sums, l.y);
  product.epilogue = Epilogue::kNone;
  product.bias = nullptr;
  if (l.added.data) return add_in_fp32(l, product);
  // The bias is stored first: adding it after the product would round twice.
  kernels::clear(sums, native_);
  kernels::activate(Activation::kNone, sums, bias, {}, sums, native_);
  product.c = sums;
  products.run(product, Products::kMain);
  if (l.act != Activation::kNone) kernels::activate(l.act, sums, nullptr, kept, l.y, native_);
}

/// The bias, l.added and the product, summed in fp32 and rounded once.
void CudaOps::add_in_fp32(const LinearForward& l, Product product) {
  const size_t elements = static_cast<size_t>(l.y.rows * l.y.cols);
  const Matrix sums(parts_->scratch.of<float>("sums of a layer in fp32", elements), DType::kFloat32,
                    l.y.rows, l.y.cols);
  kernels::convert(l.added, sums, native_);
  kernels::activate(Activation::kNone, sums, l.bias.data(), {}, sums, native_);
  product.c = product.d = sums;
  parts_->products.run(product, Products::kMain);
  kernels::convert(sums, l.y, native_);
}

bool CudaOps::fused_forward(const LinearForward& l, const Product& with_bias, Matrix kept) {
  Product fused = with_bias;
  fused.d = l.y;
  if (l.act == Activation::kRelu) {
    if (l.mask) {
      fused.epilogue = Epilogue::kReluAuxBias;
      fused.aux = l.mask->bits;
      fused.aux_stride = l.mask->stride;
      l.mask->written = parts_->products.run_fused(fused, Products::kMain);
      if (l.mask->written) return true;
    }
    fused.epilogue = Epilogue::kReluBias;
    return parts_->products.run_fused(fused, Products::kMain);
  }
  // cuBLASLt does not document the accuracy of its tanh, so its GELU is used for bf16 only.
  if (l.act != Activation::kGelu || l.y.type != DType::kBFloat16) return false;
  fused.epilogue = Epilogue::kGeluAuxBias;
  fused.aux = kept.data;
  fused.aux_stride = kept.stride;
  return parts_->products.run_fused(fused, Products::kMain);
}

void CudaOps::activate(Activation act, Matrix z, Matrix y) {
  if (act == Activation::kNone) return;
  if (cuda::in_library(act) && parts_->activations().forward(act, z, y, stream_)) return;
  kernels::activate(act, z, nullptr, {}, y, native_);
}

void CudaOps::run(const ActivationBackward& o) {
  const auto& [act, y, z, dy] = o;
  if (act == Activation::kNone || dy.rows == 0 || dy.cols == 0) return;
  if (cuda::in_library(act) && parts_->activations().backward(act, y, dy, stream_)) return;
  kernels::activate_backward(act, y, z, dy, native_);
}

void CudaOps::run(const LinearBackwardInput& o) {
  LinearBackward layer;
  layer.dy = o.dz, layer.w = o.w, layer.dx = o.dx, layer.added = o.added;
  input_gradient(layer);
}

void CudaOps::input_gradient(const LinearBackward& l) {
  if (l.dx.rows == 0 || l.dx.cols == 0) return;
  if (l.dy.cols > 0) {
    Products& products = parts_->products;
    Product product = products.aligned({.a = l.dy, .b = l.w, .d = l.dx}, Products::kMain);
    product.c = l.added;
    if (l.below && fused_input_gradient(l, product)) return;
    products.run(product, Products::kMain);
  } else if (!l.added.data) {
    kernels::clear(l.dx, native_);
  } else if (l.added.data != l.dx.data) {
    kernels::convert(l.added, l.dx, native_);
  }
  if (l.below) activation_backward(l.below->act, l.below->y, l.below->z, l.dx);
}

/// Fuses ReLU's mask and, in fp32, the sums too. In bf16 the library would round the sums.
bool CudaOps::fused_input_gradient(const LinearBackward& l, const Product& product) {
  LayerBelow& below = *l.below;
  if (below.act != Activation::kRelu || !below.mask || !below.mask->written) return false;
  Products& products = parts_->products;
  Product masked = product;
  masked.epilogue = Epilogue::kDrelu;
  masked.aux = below.mask->bits;
  masked.aux_stride = below.mask->stride;
  if (!products.serves(masked, Products::kMain)) return false;
  Product summed = masked;
  summed.epilogue = Epilogue::kDreluBgrad;
  summed.bias = below.dbias.data();
  if (l.dx.type != DType::kFloat32 || below.dbias.empty() ||
      !products.serves(summed, Products::kMain)) {
    return products.run_fused(masked, Products::kMain);
  }
  const auto way = [&](int which) {
    if (which == 1) {
      products.run_fused(summed, Products::kMain);
      return;
    }
    products.run_fused(masked, Products::kMain);
    column_sums(l.dx, below.dbias, Products::kMain);
  };
  way(products.fastest(summed, 2, way, Products::kMain));
  below.has_dbias = true;
  return true;
}

void CudaOps::run(const LinearBackwardWeight& o) {
  weight_gradient(o.dz, o.x, o.dw, o.dbias, Products::kMain);
}

void CudaOps::weight_gradient(Matrix dz, Matrix x, MatrixView<float> dw, View<float> dbias,
                              int lane) {
  Products& products = parts_->products;
  const cudaStream_t queue = products.native(lane);
  if (dw.rows == 0) return;
  if (dz.rows == 0) {
    if (!dbias.empty())
      kernels::clear(row_matrix(dbias.data(), DType::kFloat32, dbias.size()), queue);
    return kernels::clear(dw, queue);
  }
  if (dw.cols == 0) return column_sums(dz, dbias, lane);
  if (dw.rows == 1) {
    LinearBackward layer;
    layer.dy = dz, layer.x = x, layer.dw = dw, layer.dbias = dbias;
    return one_output_backward(layer, lane);
  }
  const Product product = products.aligned({.a = dz, .b = x, .d = dw, .transpose_a = true}, lane);
  if (dbias.empty()) return products.run(product, lane);
  Product summed = product;
  summed.epilogue = Epilogue::kSumsOfA;
  summed.bias = dbias.data();
  const auto way = [&](int which) {
    if (which == 1) {
      products.run_fused(summed, lane);
      return;
    }
    products.run(product, lane);
    column_sums(dz, dbias, lane);
  };
  way(products.serves(summed, lane) ? products.fastest(summed, 2, way, lane) : 0);
}

void CudaOps::column_sums(Matrix m, View<float> sums, int lane) {
  if (sums.empty()) return;
  Products& products = parts_->products;
  auto* partial = products.scratch(lane).of<float>("column sums", kernels::column_sums_partial(m));
  kernels::column_sums(m, sums.data(), partial, products.native(lane));
}

void CudaOps::one_output_backward(const LinearBackward& l, int lane) {
  kernels::OneOutputGradients to;
  to.dx = l.dx;
  to.relu = l.below && l.below->act == Activation::kRelu;
  to.dw = l.dw.data;
  to.dbias = l.dbias.empty() ? nullptr : l.dbias.data();
  const bool sums =
      l.below && (to.relu || l.below->act == Activation::kNone) && !l.below->dbias.empty();
  if (sums) {
    to.sums_of_dx = l.below->dbias.data();
    l.below->has_dbias = true;
  }
  Products& products = parts_->products;
  auto* partial =
      products.scratch(lane).of<float>("sums of a layer", kernels::one_output_partial(l.x));
  kernels::one_output_backward(l.dy, l.x, l.w, to, partial, products.native(lane));
  if (l.below && !to.relu) activation_backward(l.below->act, l.below->y, l.below->z, l.dx);
}

Stream* CudaOps::gradient_stream() { return parts_->side.get(); }

void CudaOps::run(const LinearBackward& l) {
  activation_backward(l.act, l.y, l.z, l.dy);
  const bool one_output = l.dy.cols == 1 && l.dy.rows > 0 && l.x.cols > 0 && !l.added.data;
  if (one_output) return one_output_backward(l, Products::kMain);
  if (!l.dx.data && !l.deferred) return linear_backward_weight(l.dy, l.x, l.dw, l.dbias);
  if (l.dw.data) {
    stream_.record(*parts_->forked);
    parts_->side->wait(*parts_->forked);
    weight_gradient(l.dy, l.x, l.dw, l.dbias, Products::kSide);
  }
  if (l.dx.data) input_gradient(l);
  if (l.deferred) return;
  parts_->side->record(*parts_->joined);
  stream_.wait(*parts_->joined);
}

}  // namespace dlrm
