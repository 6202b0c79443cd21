#include "matrix_rates.h"

#include <vector>

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "repeat.h"

namespace dlrm::bench {
namespace {

/// Square matrices of ones and of the product.
struct Matrices {
  explicit Matrices(int64_t n) : a(static_cast<size_t>(n * n), 1), b(a), c(a) {}
  std::vector<float> a, b, c;
};

/// OpenBLAS, loaded at run time because nothing else needs it. It stays loaded, because its threads
/// may outlive a call.
class OpenBlas {
 public:
  OpenBlas() : library_(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    set_threads_ = reinterpret_cast<SetThreads>(dlsym(library_, "openblas_set_num_threads"));
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(library_, "cblas_sgemm"));
  }

  bool usable() const { return set_threads_ && sgemm_; }
  void use_threads(int threads) const { set_threads_(threads); }
  void multiply(int64_t size, Matrices& m) const {
    constexpr int kRowMajor = 101, kNoTranspose = 111;
    const int n = static_cast<int>(size);
    sgemm_(kRowMajor, kNoTranspose, kNoTranspose, n, n, n, 1.0f, m.a.data(), n, m.b.data(), n, 0.0f,
           m.c.data(), n);
  }

 private:
  using SetThreads = void (*)(int);
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  void* library_;
  SetThreads set_threads_ = nullptr;
  Sgemm sgemm_ = nullptr;
};

}  // namespace

std::optional<double> onednn_sgemm_rate(int64_t n, double seconds) {
  Matrices m(n);
  bool done = true;
  const double best = fastest_seconds(seconds, [&] {
    done &= dnnl_sgemm('N', 'N', n, n, n, 1.0f, m.a.data(), n, m.b.data(), n, 0.0f, m.c.data(),
                       n) == dnnl_success;
  });
  if (!done) return std::nullopt;
  return gflops(n, best);
}

std::optional<double> onednn_layer_rate(int64_t samples, int64_t inputs, int64_t outputs,
                                        double seconds) {
  const std::vector<float> a(static_cast<size_t>(samples * inputs), 1);
  const std::vector<float> b(static_cast<size_t>(inputs * outputs), 1);
  std::vector<float> c(static_cast<size_t>(samples * outputs));
  bool done = true;
  const double best = fastest_seconds(seconds, [&] {
    done &= dnnl_sgemm('N', 'N', samples, outputs, inputs, 1.0f, a.data(), inputs, b.data(),
                       outputs, 0.0f, c.data(), outputs) == dnnl_success;
  });
  if (!done) return std::nullopt;
  return 2e-9 * static_cast<double>(samples * inputs * outputs) / best;
}

std::optional<double> openblas_sgemm_rate(int64_t n, double seconds, int threads) {
  const OpenBlas blas;
  if (!blas.usable()) return std::nullopt;
  blas.use_threads(threads);
  Matrices m(n);
  return gflops(n, fastest_seconds(seconds, [&] { blas.multiply(n, m); }));
}

std::optional<double> onednn_bf16_rate(int64_t n, double seconds) {
  using dnnl::memory;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const auto any = memory::format_tag::any;
    const memory::desc in({n, n}, memory::data_type::bf16, any);
    const memory::desc out({n, n}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc chosen({in, in, out}, engine);
    const dnnl::matmul multiply(chosen);
    memory a(chosen.src_desc(), engine), b(chosen.weights_desc(), engine),
        c(chosen.dst_desc(), engine);
    const auto clear = [](const memory& m) {
      std::fill_n(static_cast<char*>(m.get_data_handle()), m.get_desc().get_size(), char{0});
    };
    clear(a);
    clear(b);
    const double best = fastest_seconds(seconds, [&] {
      multiply.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
      stream.wait();
    });
    return gflops(n, best);
  } catch (const dnnl::error&) {
    return std::nullopt;  // a processor without bf16 instructions
  }
}

}  // namespace dlrm::bench
