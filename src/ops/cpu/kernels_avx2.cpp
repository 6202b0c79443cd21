#include "cpu/kernels_body.h"
#include "cpu/product_body.h"

namespace dlrm::cpu {
namespace {

constexpr Kernels with_products() {
  Kernels kernels = kernels_named("avx2");
  kernels.product_scratch = product_scratch;
  kernels.product = product;
  return kernels;
}

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels kernels = with_products();
  return kernels;
}

}  // namespace dlrm::cpu
