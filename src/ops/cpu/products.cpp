#include "cpu/products.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"
#include "dlrm/core/isa.h"
#include "dlrm/device/device.h"

#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

using dnnl::memory;

/// c [m, n] = a [m, k] · b [k, n], each operand stored by rows or, transposed, by columns.
struct Shape {
  int64_t m = 0, k = 0, n = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool transposed_a = false, transposed_b = false;
  DType in = DType::kFloat32, out = DType::kFloat32;
  bool bias = false;
  bool sum = false;  ///< the product is added to what c holds
  bool operator==(const Shape&) const = default;
};

struct ShapeHash {
  size_t operator()(const Shape& s) const {
    const int64_t fields[] = {s.m,
                              s.k,
                              s.n,
                              s.lda,
                              s.ldb,
                              s.ldc,
                              static_cast<int64_t>(s.in),
                              static_cast<int64_t>(s.out),
                              s.sum * 8 + s.transposed_a * 4 + s.transposed_b * 2 + s.bias};
    return hash_bytes(fields, sizeof fields);
  }
};

struct Primitive {
  dnnl::matmul run;
  memory a, b, bias, c, scratch;
  dnnl::stream stream;
};

memory::data_type type_of(DType type) {
  return type == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// The stride of a single row has no meaning and may be less than its length.
int64_t leading(const Matrix& m) { return m.rows > 1 ? m.stride : std::max<int64_t>(m.cols, 1); }

memory::desc described(int64_t rows, int64_t cols, int64_t stride, bool transposed, DType type) {
  return {
      {rows, cols}, type_of(type), transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

/// Once per process, before oneDNN is asked for anything.
void limit_onednn() {
  static const bool limited = [] {
    if (isa_limit() == Isa::kAmx) return false;
    const bool avx2 = isa_limit() == Isa::kAvx2;
    const auto most = avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::avx512_core_bf16;
    const dnnl::status status = dnnl::set_max_cpu_isa(most);
    DLRM_CHECK(status == dnnl::status::success, "oneDNN takes no limit of instruction sets: {}",
               static_cast<int>(status));
    return true;
  }();
  static_cast<void>(limited);
}

bool multiplies_bf16() {
  limit_onednn();
  // The bits of an instruction set include those of lesser sets.
  const auto have = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto need = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (have & need) == need;
}

}  // namespace

class Products::Impl {
 public:
  Impl(Device& device, const Kernels& kernels, int threads, bool allow_bf16)
      : kernels_(kernels),
        threads_(threads),
        native_bf16_(allow_bf16 && multiplies_bf16()),
        scratch_(device, 0, "matrix product scratch"),
        wide_a_(device, 0, "widened bf16 operand"),
        wide_b_(device, 0, "widened bf16 operand"),
        wide_c_(device, 0, "bf16 result before rounding") {}

  bool native_bf16() const { return native_bf16_; }

  void multiply(Matrix a, bool transposed_a, Matrix b, bool transposed_b, const float* bias,
                const Matrix& added, Matrix c) {
    const Matrix result = c;
    const bool widen = a.type == DType::kBFloat16 && !native_bf16_;
    if (widen) {
      a = widened(a, wide_a_);
      b = widened(b, wide_b_);
      if (c.type == DType::kBFloat16) c = in_fp32(c, wide_c_);
    }
    if (added.data && added.data != c.data) convert(added, c);
    if (a.type == DType::kFloat32 && kernels_.product && !transposed_b) {
      multiply_fp32({.a = a.f32(),
                     .b = b.f32(),
                     .transposed_a = transposed_a,
                     .sum = added.data != nullptr,
                     .c = c.f32()});
      if (c.data != result.data) convert(c, result);
      return;
    }
    Shape s;
    s.m = c.rows;
    s.n = c.cols;
    s.k = transposed_a ? a.rows : a.cols;
    s.lda = leading(a);
    s.ldb = leading(b);
    s.ldc = leading(c);
    s.transposed_a = transposed_a;
    s.transposed_b = transposed_b;
    s.in = a.type;
    s.out = c.type;
    s.bias = bias != nullptr;
    s.sum = added.data != nullptr;
    run(s, static_cast<char*>(a.data), static_cast<char*>(b.data), bias,
        static_cast<char*>(c.data));
    if (c.data != result.data) convert(c, result);
  }

 private:
  /// Each thread has a part of c.
  void multiply_fp32(const Product& p) {
    const int64_t m = p.c.rows, n = p.c.cols, k = p.transposed_a ? p.a.rows : p.a.cols;
    const Parts parts = parts_for(threads_, m * n * k, 1 << 18);
    const Grid grid = grid_of(parts, m, n);
    const int64_t blocks = (n + kTileColumns - 1) / kTileColumns;
    reserve_scratch(static_cast<size_t>(kernels_.product_scratch()) * sizeof(float));
    parallel({grid.rows * grid.columns, threads_}, [&](int part) {
      const Range rows = part_of(m, part / grid.columns, grid.rows);
      const Range c = part_of(blocks, part % grid.columns, grid.columns);
      const int64_t j0 = c.begin * kTileColumns, columns = std::min(n, c.end * kTileColumns) - j0;
      Product tile = p;
      tile.a = p.transposed_a ? p.a.columns(rows.begin, rows.size())
                              : p.a.row_range(rows.begin, rows.size());
      tile.b = p.b.columns(j0, columns);
      tile.c = p.c.row_range(rows.begin, rows.size()).columns(j0, columns);
      kernels_.product(tile, reinterpret_cast<float*>(scratch_.data() +
                                                      static_cast<size_t>(part) * scratch_stride_));
    });
  }

  /// The product c [m, n] in `rows` x `columns` tiles.
  struct Grid {
    int rows = 1, columns = 1;
  };
  static constexpr int64_t kTileRows = 8, kTileColumns = 16;

  /// As many tiles as there are threads, if they have a few rows and columns. The smallest tile
  /// wins, of equal ones the one nearest to a square.
  static Grid grid_of(int threads, int64_t m, int64_t n) {
    Grid best;
    const auto size = [&](const Grid& g) {
      const int64_t rows = (m + g.rows - 1) / g.rows, columns = (n + g.columns - 1) / g.columns;
      return std::pair(rows * columns, rows + columns);
    };
    for (int rows = 1; rows <= std::min<int64_t>(threads, m / kTileRows); ++rows) {
      const auto columns = std::clamp<int64_t>(n / kTileColumns, 1, threads / rows);
      const Grid grid{rows, static_cast<int>(columns)};
      if (size(grid) < size(best)) best = grid;
    }
    const Grid row{1, static_cast<int>(std::clamp<int64_t>(n / kTileColumns, 1, threads))};
    return size(row) < size(best) ? row : best;
  }

  /// A product of oneDNN on one thread: [m, n] of c from a row and a column on.
  struct Tile {
    int64_t row = 0, column = 0;
    Primitive product;
  };

  /// oneDNN takes teams of any size up to all threads, so each thread makes a product of its own of
  /// a tile. A team of at most two has no other size. There oneDNN shares the work, which takes up
  /// to 7 % less of a step of small batches.
  void run(const Shape& shape, char* a, char* b, const float* bias, char* c) {
    // A second thread would start too late to help with a small product.
    const Parts parts = parts_for(threads_, shape.m * shape.n * shape.k, 1 << 18);
    const bool alone = threads_ > 2;
    const LibraryThreads scope(alone ? 1 : parts);
    std::vector<Tile>& tiles = tiles_of(shape, alone ? parts.count : 1);
    const auto in = static_cast<int64_t>(size_of(shape.in));
    const auto out = static_cast<int64_t>(size_of(shape.out));
    std::atomic<dnnl_status_t> status{dnnl_success};
    parallel({static_cast<int>(tiles.size()), threads_}, [&](int part) {
      Tile& tile = tiles[static_cast<size_t>(part)];
      Primitive& p = tile.product;
      p.a.set_data_handle(a + in * tile.row * (shape.transposed_a ? 1 : shape.lda));
      p.b.set_data_handle(b + in * tile.column * (shape.transposed_b ? shape.ldb : 1));
      p.c.set_data_handle(c + out * (tile.row * shape.ldc + tile.column));
      p.scratch.set_data_handle(scratch_.data() + static_cast<size_t>(part) * scratch_stride_);
      if (bias) p.bias.set_data_handle(const_cast<float*>(bias + tile.column));
      const std::array<dnnl_exec_arg_t, 5> args{{{DNNL_ARG_SRC, p.a.get()},
                                                 {DNNL_ARG_WEIGHTS, p.b.get()},
                                                 {DNNL_ARG_DST, p.c.get()},
                                                 {DNNL_ARG_SCRATCHPAD, p.scratch.get()},
                                                 {DNNL_ARG_BIAS, p.bias.get(true)}}};
      const dnnl_status_t ended =
          dnnl_primitive_execute(p.run.get(), p.stream.get(), bias ? 5 : 4, args.data());
      if (ended != dnnl_success) status = ended;
    });
    DLRM_CHECK(status == dnnl_success, "oneDNN matmul ended with status {}",
               static_cast<int>(status.load()));
  }

  std::vector<Tile>& tiles_of(const Shape& shape, int threads) {
    const auto found = tiles_.find(shape);
    if (found != tiles_.end()) return found->second;
    const Grid grid = grid_of(threads, shape.m, shape.n);
    const int64_t blocks = (shape.n + kTileColumns - 1) / kTileColumns;
    std::vector<Tile> tiles;
    for (int r = 0; r < grid.rows; ++r) {
      const Range rows = part_of(shape.m, r, grid.rows);
      for (int c = 0; c < grid.columns; ++c) {
        const Range columns = part_of(blocks, c, grid.columns);
        Shape tile = shape;
        tile.m = rows.size();
        tile.n = std::min(shape.n, columns.end * kTileColumns) - columns.begin * kTileColumns;
        tiles.push_back({rows.begin, columns.begin * kTileColumns, make(tile)});
      }
    }
    return tiles_.emplace(shape, std::move(tiles)).first->second;
  }

  Primitive make(const Shape& s) {
    const auto a = described(s.m, s.k, s.lda, s.transposed_a, s.in);
    const auto b = described(s.k, s.n, s.ldb, s.transposed_b, s.in);
    const auto c = described(s.m, s.n, s.ldc, false, s.out);
    const memory::desc bias({1, s.n}, memory::data_type::f32, memory::dims{s.n, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (s.sum) {
      dnnl::post_ops after;
      after.append_sum();
      attributes.set_post_ops(after);
    }
    try {
      const dnnl::matmul::primitive_desc description(
          s.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes,
          engine_);
      const auto space = description.scratchpad_desc();
      reserve_scratch(space.get_size());
      Primitive p{dnnl::matmul(description),   memory(a, engine_, nullptr),
                  memory(b, engine_, nullptr), {},
                  memory(c, engine_, nullptr), memory(space, engine_, nullptr),
                  dnnl::stream(engine_)};
      if (s.bias) p.bias = memory(bias, engine_, nullptr);
      return p;
    } catch (const dnnl::error& e) {
      throw run_error("oneDNN has no product of {} x {} x {} in {}: {}", s.m, s.k, s.n,
                      name_of(s.in), e.what());
    }
  }

  /// Each thread has whole pages.
  void reserve_scratch(size_t bytes) {
    constexpr size_t kPage = 4096;
    if (bytes <= scratch_stride_) return;
    scratch_stride_ = (bytes + kPage - 1) / kPage * kPage;
    scratch_.reserve(static_cast<size_t>(threads_) * scratch_stride_);
  }

  static Matrix in_fp32(const Matrix& m, Array<float>& space) {
    space.reserve(static_cast<size_t>(m.rows * m.cols));
    return {space.data(), DType::kFloat32, m.rows, m.cols};
  }

  Matrix widened(const Matrix& m, Array<float>& space) {
    const Matrix wide = in_fp32(m, space);
    convert(m, wide);
    return wide;
  }

  /// Copies `from` to `to`. One of them is fp32, or both have one type.
  void convert(const Matrix& from, const Matrix& to) {
    parallel_ranges(threads_, to.rows, to.cols, 16384, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r) {
        const void* source = from.element(r, 0);
        void* target = to.element(r, 0);
        if (from.type == to.type) {
          std::memcpy(target, source, static_cast<size_t>(to.cols) * size_of(to.type));
        } else if (to.type == DType::kFloat32) {
          kernels_.to_float(from.type, source, static_cast<float*>(target), to.cols);
        } else {
          kernels_.from_float(to.type, static_cast<const float*>(source), target, to.cols);
        }
      }
    });
  }

  const Kernels& kernels_;
  int threads_;
  bool native_bf16_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::unordered_map<Shape, std::vector<Tile>, ShapeHash> tiles_;
  Array<char> scratch_;
  size_t scratch_stride_ = 0;  // bytes of a thread
  Array<float> wide_a_;
  Array<float> wide_b_;
  Array<float> wide_c_;
};

Products::Products(Device& device, const Kernels& kernels, int threads, bool allow_bf16)
    : impl_(std::make_unique<Impl>(device, kernels, threads, allow_bf16)) {}
Products::~Products() = default;

bool Products::native_bf16() const { return impl_->native_bf16(); }

void Products::forward(const Matrix& x, const Matrix& w, const float* bias, const Matrix& added,
                       const Matrix& y) {
  impl_->multiply(x, false, w, true, bias, added, y);
}

void Products::backward_input(const Matrix& dz, const Matrix& w, const Matrix& added,
                              const Matrix& dx) {
  impl_->multiply(dz, false, w, false, nullptr, added, dx);
}

void Products::backward_weight(const Matrix& dz, const Matrix& x, const MatrixView<float>& dw) {
  impl_->multiply(dz, true, x, false, nullptr, {}, dw);
}

}  // namespace dlrm::cpu
