// Products whose operands do not fit one another.
#ifdef DLRM_WITH_CUDA
#include "device/cuda/matmul_shape.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace dlrm::cuda {
namespace {

/// aᵀ [5, 3] times b [5, 7].
Product product() {
  static float memory[64];
  Product p;
  p.a = Matrix(memory, DType::kFloat32, 5, 3);
  p.b = Matrix(memory, DType::kFloat32, 5, 7);
  p.d = Matrix(memory, DType::kFloat32, 3, 7);
  p.transpose_a = true;
  p.bias = memory;
  return p;
}

std::string error_of(const Product& p) {
  try {
    shape_of(p);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(MatmulShape, IsThatOfTheOperandsAsTheyAreMultiplied) {
  const MatmulShape s = shape_of(product());
  EXPECT_EQ(s.m, 3);
  EXPECT_EQ(s.n, 7);
  EXPECT_EQ(s.k, 5);
}

TEST(MatmulShape, OperandsThatDoNotFitAreRefused) {
  struct Case {
    std::string error;
    std::function<void(Product&)> change;
  };
  for (const auto& [error, change] :
       std::vector<Case>{{"rows of a product", [](Product& p) { p.d.rows = 4; }},
                         {"rows of a product", [](Product& p) { p.a.cols = 4; }},
                         {"columns of a product", [](Product& p) { p.d.cols = 8; }},
                         {"columns of a product", [](Product& p) { p.transpose_b = true; }},
                         {"inner size of a product", [](Product& p) { p.b.rows = 6; }},
                         {"an empty product", [](Product& p) { p.a.rows = p.b.rows = 0; }},
                         {"an empty product", [](Product& p) { p.a.cols = p.d.rows = 0; }},
                         {"an empty product", [](Product& p) { p.b.cols = p.d.cols = 0; }},
                         {"an epilogue without its vector", [](Product& p) {
                            p.epilogue = Epilogue::kBias;
                            p.bias = nullptr;
                          }}}) {
    Product p = product();
    change(p);
    EXPECT_THAT(error_of(p), testing::HasSubstr(error));
  }
}

TEST(MatmulShape, TheResultIsFp32OrOfTheTypeOfBothFactors) {
  const auto with_types = [](DType a, DType b, DType d) {
    Product p = product();
    p.a.type = a, p.b.type = b, p.d.type = d;
    return error_of(p);
  };
  constexpr DType kFp32 = DType::kFloat32, kBf16 = DType::kBFloat16;
  EXPECT_EQ(with_types(kFp32, kFp32, kFp32), "none");
  EXPECT_EQ(with_types(kBf16, kBf16, kBf16), "none");
  EXPECT_EQ(with_types(kBf16, kBf16, kFp32), "none");
  for (const auto& [a, b, d] : {std::tuple{kFp32, kFp32, kBf16},
                                {kFp32, kBf16, kFp32},
                                {kBf16, kFp32, kFp32},
                                {kBf16, kFp32, kBf16}}) {
    EXPECT_THAT(with_types(a, b, d), testing::HasSubstr("types of a product"));
  }
}

TEST(MatmulShape, OnlyAMaskOrNothingNeedsNoVector) {
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kDrelu}) {
    Product p = product();
    p.epilogue = epilogue;
    p.bias = nullptr;
    EXPECT_EQ(error_of(p), "none");
  }
}

}  // namespace
}  // namespace dlrm::cuda
#endif
