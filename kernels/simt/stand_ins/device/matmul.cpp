#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "dlrm/core/hash.h"
#include "dlrm/device/cuda/runtime.h"

#include "cuda/matmul_shape.h"
#include "cuda/stored.h"
#include "cuda/tuned_algorithms.h"
#include "simt/simt.h"

namespace dlrm::cuda {
namespace {

// Blocks that fit the caches. Sums over k are taken in chunks: shorter sums have less rounding.
constexpr int64_t kRows = 8;
constexpr int64_t kColumns = 256;
/// Chunk sizes of the inner dimension. Algorithms differ in them.
constexpr int64_t kInner[] = {256, 64, 16};
constexpr uint64_t kAlgorithms = 3;

/// op(m) as floats, row-major without gaps.
std::vector<float> unpacked(const Matrix& m, bool transpose) {
  const int64_t rows = transpose ? m.cols : m.rows, cols = transpose ? m.rows : m.cols;
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) {
      values[static_cast<size_t>(transpose ? c * cols + r : r * cols + c)] =
          load(m.data, m.type, r * m.stride + c);
    }
  }
  return values;
}

struct Block {
  int64_t row, rows, column, columns;
};

/// sums[r, c] += Σ_k a[row + r, k] b[k, column + c], chunk by chunk in the order of k.
void multiply(const float* a, const float* b, const MatmulShape& s, const Block& block,
              int64_t inner, float* sums) {
  float partial[kRows * kColumns];
  for (int64_t k0 = 0; k0 < s.k; k0 += inner) {
    const int64_t k1 = std::min(k0 + inner, s.k);
    std::fill_n(partial, block.rows * kColumns, 0.0f);
    for (int64_t k = k0; k < k1; ++k) {
      const float* right = b + k * s.n + block.column;
      for (int64_t r = 0; r < block.rows; ++r) {
        const float left = a[(block.row + r) * s.k + k];
        float* to = partial + r * kColumns;
        for (int64_t c = 0; c < block.columns; ++c) to[c] += left * right[c];
      }
    }
    for (int64_t i = 0; i < block.rows * kColumns; ++i) sums[i] += partial[i];
  }
}

float gelu(float z) {
  const double x = z;
  return static_cast<float>(
      x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))));
}

class EpilogueLoop {
 public:
  explicit EpilogueLoop(const Product& p)
      : p_(p),
        sums_(p.epilogue == Epilogue::kDreluBgrad ? static_cast<size_t>(p.d.cols) : 0),
        bits_(static_cast<uint8_t*>(p.aux)) {}

  void store_sum(int64_t r, int64_t c, float sum) {
    if (p_.c.data) sum += load(p_.c.data, p_.c.type, r * p_.c.stride + c);
    store(p_.d.data, p_.d.type, r * p_.d.stride + c, finished(r, c, sum));
  }

  void store_vector(const std::vector<float>& a, const std::vector<float>& b,
                    const MatmulShape& s) {
    if (p_.epilogue == Epilogue::kDreluBgrad) {
      for (int64_t c = 0; c < s.n; ++c) put(c, sums_[static_cast<size_t>(c)]);
    }
    if (p_.epilogue == Epilogue::kSumsOfA) {
      for (int64_t r = 0; r < s.m; ++r) {
        put(r, sum([&](int64_t k) { return a[static_cast<size_t>(r * s.k + k)]; }, s.k));
      }
    }
    if (p_.epilogue == Epilogue::kSumsOfB) {
      for (int64_t c = 0; c < s.n; ++c) {
        put(c, sum([&](int64_t k) { return b[static_cast<size_t>(k * s.n + c)]; }, s.k));
      }
    }
  }

 private:
  template <class Get>
  static double sum(const Get& get, int64_t count) {
    double total = 0;
    for (int64_t k = 0; k < count; ++k) total += get(k);
    return total;
  }
  void put(int64_t i, double value) { store(p_.bias, p_.d.type, i, static_cast<float>(value)); }
  float bias(int64_t c) const { return load(p_.bias, p_.d.type, c); }
  uint8_t& byte(int64_t r, int64_t c) { return bits_[r * p_.aux_stride / 8 + c / 8]; }

  float finished(int64_t r, int64_t c, float sum) {
    const auto bit = static_cast<uint8_t>(1u << (c % 8));
    switch (p_.epilogue) {
      case Epilogue::kNone:
      case Epilogue::kSumsOfA:
      case Epilogue::kSumsOfB:
        return sum;
      case Epilogue::kBias:
        return sum + bias(c);
      case Epilogue::kReluBias:
        sum += bias(c);
        return sum > 0 ? sum : 0;  // as in cuBLASLt, a NaN becomes 0
      case Epilogue::kReluAuxBias:
        sum += bias(c);
        byte(r, c) = static_cast<uint8_t>(sum > 0 ? byte(r, c) | bit : byte(r, c) & ~bit);
        return sum > 0 ? sum : 0;
      case Epilogue::kGeluAuxBias:
        sum += bias(c);
        store(p_.aux, p_.d.type, r * p_.aux_stride + c, sum);
        return gelu(sum);
      case Epilogue::kDrelu:
        return byte(r, c) & bit ? sum : 0;
      case Epilogue::kDreluBgrad:
        sum = byte(r, c) & bit ? sum : 0;
        sums_[static_cast<size_t>(c)] += sum;
        return sum;
    }
    return sum;
  }

  const Product& p_;
  std::vector<double> sums_;
  uint8_t* bits_;
};

void compute(const Product& p, int64_t inner) {
  const MatmulShape s = shape_of(p);
  const std::vector<float> a = unpacked(p.a, p.transpose_a), b = unpacked(p.b, p.transpose_b);
  EpilogueLoop epilogue(p);
  std::vector<float> sums(kRows * kColumns);
  for (int64_t column = 0; column < s.n; column += kColumns) {
    for (int64_t row = 0; row < s.m; row += kRows) {
      const Block block{row, std::min(kRows, s.m - row), column, std::min(kColumns, s.n - column)};
      std::fill(sums.begin(), sums.end(), 0.0f);
      multiply(a.data(), b.data(), s, block, inner, sums.data());
      for (int64_t r = 0; r < block.rows; ++r) {
        for (int64_t c = 0; c < block.columns; ++c) {
          epilogue.store_sum(row + r, column + c, sums[static_cast<size_t>(r * kColumns + c)]);
        }
      }
    }
  }
  epilogue.store_vector(a, b, s);
}

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

/// Matrix products by loops on the host. Refuses epilogues at unaligned pointers, and bf16 products
/// with an inner size of 1. The library refuses some shapes too, so tests cover the callers'
/// alternatives. If candidates are timed, DLRM_SIMT_TIMING (a number) selects the fastest one, like
/// a measurement on another day. With 0 the first is always the fastest.
class LoopMatmul final : public Matmul {
 public:
  explicit LoopMatmul(const MatmulOptions& options) : options_(options) {}

  bool serves(const Product& p, Stream& stream) override {
    if (shape_of(p).k == 1 && p.a.type == DType::kBFloat16) return false;
    if (p.epilogue != Epilogue::kNone && !takes_epilogue(p)) return false;
    chosen(key_of(p, options_.tf32), kAlgorithms, stream);
    return true;
  }
  void run(const Product& product, Stream& stream) override {
    DLRM_CHECK(serves(product, stream), "a product that the library does not serve");
    const int64_t inner = kInner[chosen(key_of(product, options_.tf32), kAlgorithms, stream)];
    const MatmulShape s = shape_of(product);
    const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n * s.k);
    simt::stream_operation(native(stream), [product, inner] { compute(product, inner); }, "matmul",
                           {.flops = flops});
  }
  int fastest(const Product& product, int ways, const std::function<void(int)>& run_way,
              Stream& stream) override {
    const MatmulKey key = key_of_way(product, options_.tf32);
    if (timed() && !chosen_.contains(key) && !restored_.contains(key)) {
      for (int way = 0; way < ways; ++way) run_way(way);
    }
    return static_cast<int>(chosen(key, static_cast<uint64_t>(ways), stream));
  }
  void settle() override { settled_ = true; }
  std::vector<std::byte> tuned_algorithms() const override {
    if (!settled_) return {};
    TunedAlgorithms all = restored_;
    for (const auto& [key, choice] : chosen_) all[key] = choice;
    return pack_tuned_algorithms(all, kOrigin);
  }
  void restore(std::span<const std::byte> choices) override {
    restored_ = unpack_tuned_algorithms(choices, kOrigin);
    settled_ = !restored_.empty();
  }

 private:
  static constexpr MatmulOrigin kOrigin{1, 0};

  static bool takes_epilogue(const Product& p) {
    if (p.bias && !aligned(p.bias)) return false;
    if (!uses_aux(p.epilogue)) return true;
    const bool relu = p.epilogue != Epilogue::kGeluAuxBias;
    return p.aux && aligned(p.aux) && p.aux_stride % (relu ? 128 : 8) == 0;
  }
  bool timed() const { return options_.timed_candidates > 1 && !settled_; }

  uint64_t chosen(const MatmulKey& key, uint64_t candidates, Stream& stream) {
    const auto known = chosen_.find(key);
    if (known != chosen_.end()) return known->second.data[0];
    DLRM_CHECK(!capturing(native(stream)), "a product's shape first met while a graph is captured");
    const auto saved = restored_.find(key);
    MatmulChoice& made = chosen_[key];
    made.data[0] = saved != restored_.end() ? saved->second.data[0]
                   : timed()                ? measured(key, candidates)
                                            : 0;
    return made.data[0];
  }

  static uint64_t measured(const MatmulKey& key, uint64_t candidates) {
    const char* text = std::getenv("DLRM_SIMT_TIMING");
    uint64_t mixed = text ? std::strtoull(text, nullptr, 10) : 0;
    if (mixed == 0) return 0;
    for (const int64_t part : key) mixed = mix64(mixed ^ static_cast<uint64_t>(part));
    return mixed % candidates;
  }

  MatmulOptions options_;
  bool settled_ = false;
  TunedAlgorithms chosen_, restored_;
};

}  // namespace

std::unique_ptr<Matmul> make_matmul(Device&, const MatmulOptions& options) {
  return std::make_unique<LoopMatmul>(options);
}

}  // namespace dlrm::cuda
