// Linear layers: products by cuBLASLt with what it can fuse, and kernels for the rest.
#include "cuda/cuda_ops.h"
#include "cuda/parts.h"
#include "cuda/products.h"
#include "kernels/activation.h"
#include "kernels/column_sums.h"
#include "kernels/elementwise.h"

namespace dlrm {
namespace {

using cuda::Epilogue;
using cuda::Product;
using kernels::Curve;

Curve curve_of(Act act) {
  switch (act) {
    case Act::kNone:
      return Curve::kNone;
    case Act::kRelu:
      return Curve::kRelu;
    case Act::kGelu:
      return Curve::kGelu;
    case Act::kSilu:
      return Curve::kSilu;
    case Act::kSigmoid:
      return Curve::kSigmoid;
    case Act::kTanh:
      return Curve::kTanh;
  }
  return Curve::kNone;
}

/// The function of cuDNN's that `act` is; false where it has none.
bool named_by_cudnn(Act act, cuda::Activation& function) {
  switch (act) {
    case Act::kSilu:
      function = cuda::Activation::kSilu;
      return true;
    case Act::kSigmoid:
      function = cuda::Activation::kSigmoid;
      return true;
    case Act::kTanh:
      function = cuda::Activation::kTanh;
      return true;
    default:
      return false;
  }
}

Matrix row_matrix(const void* data, DType type, size_t size) {
  return {const_cast<void*>(data), type, 1, static_cast<int64_t>(size)};
}

/// The epilogue that does a whole layer, if there is one. cuBLASLt's GELU is trusted for bf16
/// alone: how exact its tanh is, it does not say.
Epilogue fused_epilogue(Act act, DType type) {
  if (act == Act::kRelu) return Epilogue::kReluBias;
  if (act == Act::kGelu && type == DType::kBFloat16) return Epilogue::kGeluAuxBias;
  return act == Act::kNone ? Epilogue::kBias : Epilogue::kNone;
}

}  // namespace

void CudaOps::linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                             Matrix z) {
  if (y.rows == 0 || y.cols == 0) return;
  const Matrix kept = needs_input(act) ? z : Matrix();
  const Matrix sums = kept.data ? kept : y;  // x wᵀ + bias, where it is not activated at once
  const Curve curve = curve_of(act);
  const float* added = bias.empty() ? nullptr : bias.data();
  if (x.cols == 0) {
    kernels::clear(sums, native_);
    return kernels::activate(curve, sums, added, kept, y, native_);
  }
  Products& products = parts_->products;
  Product product =
      products.aligned({.a = x, .b = w, .d = sums, .transpose_b = true}, Products::kMain);
  if (bias.empty()) {
    products.run(product, Products::kMain);
    if (act != Act::kNone) kernels::activate(curve, sums, nullptr, kept, y, native_);
    return;
  }
  product.bias = const_cast<float*>(added);
  if (y.type != DType::kFloat32) {
    // The library adds a bias of the result's type only.
    product.bias = parts_->scratch.bytes("bias in bf16", bias.size() * size_of(y.type));
    kernels::convert(row_matrix(added, DType::kFloat32, bias.size()),
                     row_matrix(product.bias, y.type, bias.size()), native_);
  }
  product.epilogue = fused_epilogue(act, y.type);
  if (product.epilogue != Epilogue::kNone) {
    Product fused = product;
    fused.d = y;
    fused.aux = kept.data;
    fused.aux_stride = kept.stride;
    if (products.run_fused(fused, Products::kMain)) return;
  }
  product.epilogue = Epilogue::kBias;
  if (products.run_fused(product, Products::kMain)) {
    return activate(act, sums, y);
  }
  product.epilogue = Epilogue::kNone;
  products.run(product, Products::kMain);
  kernels::activate(curve, sums, added, kept, y, native_);
}

void CudaOps::activate(Act act, Matrix z, Matrix y) {
  if (act == Act::kNone) return;
  cuda::Activation function;
  if (named_by_cudnn(act, function) && parts_->activations().forward(function, z, y, stream_)) {
    return;
  }
  kernels::activate(curve_of(act), z, nullptr, {}, y, native_);
}

void CudaOps::activation_backward(Act act, Matrix y, Matrix z, Matrix dy) {
  if (act == Act::kNone || dy.rows == 0 || dy.cols == 0) return;
  cuda::Activation function;
  if (named_by_cudnn(act, function) && parts_->activations().backward(function, y, dy, stream_)) {
    return;
  }
  kernels::activate_backward(curve_of(act), y, z, dy, native_);
}

void CudaOps::linear_backward_input(Matrix dz, Matrix w, Matrix dx) {
  if (dx.rows == 0 || dx.cols == 0) return;
  if (dz.cols == 0) return kernels::clear(dx, native_);
  Products& products = parts_->products;
  products.run(products.aligned({.a = dz, .b = w, .d = dx}, Products::kMain), Products::kMain);
}

void CudaOps::linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw, View<float> dbias) {
  weight_gradient(dz, x, dw, dbias, Products::kMain);
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
  if (dw.cols > 0) {
    Product product = products.aligned({.a = dz, .b = x, .d = dw, .transpose_a = true}, lane);
    if (!dbias.empty()) {
      product.epilogue = Epilogue::kSumsOfA;
      product.bias = dbias.data();
      if (products.run_fused(product, lane)) return;
      product.epilogue = Epilogue::kNone;
    }
    products.run(product, lane);
  }
  if (dbias.empty()) return;
  const char* purpose = lane == Products::kMain ? "column sums" : "column sums, beside";
  auto* partial = parts_->scratch.of<float>(purpose, kernels::column_sums_partial(dz));
  kernels::column_sums(dz, dbias.data(), partial, queue);
}

void CudaOps::linear_backward(const LinearGradients& layer) {
  activation_backward(layer.act, layer.y, layer.z, layer.dy);
  if (!layer.dx.data) return linear_backward_weight(layer.dy, layer.x, layer.dw, layer.dbias);
  stream_.record(*parts_->forked);
  parts_->side->wait(*parts_->forked);
  weight_gradient(layer.dy, layer.x, layer.dw, layer.dbias, Products::kBeside);
  linear_backward_input(layer.dy, layer.w, layer.dx);
  parts_->side->record(*parts_->joined);
  stream_.wait(*parts_->joined);
}

}  // namespace dlrm
