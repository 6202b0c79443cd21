// Kernels access nothing beyond the ends of their operands, which lie in pinned memory that ends
// before a page without access. Other builds find only writes there.
#if defined(DLRM_SIMT)
#include <cstring>
#include <map>

#include <sys/mman.h>
#include <unistd.h>

#include "bags.h"
#include "checked_cases.h"

namespace dlrm {
namespace {

/// Memory that kernels can access, with a page without access before and behind it.
class WalledMemory final : public Device {
 public:
  explicit WalledMemory(std::shared_ptr<Device> gpu)
      : Device(DeviceCapabilities{}), gpu_(std::move(gpu)) {}

  void* allocate(size_t bytes, const char* what) override {
    const size_t readable = (bytes + page_ - 1) / page_ * page_;
    Block block;
    block.bytes = readable + 3 * page_;
    block.all = gpu_->allocate_host(block.bytes, what);
    const auto at = reinterpret_cast<uintptr_t>(block.all);
    block.walls[0] = static_cast<char*>(block.all) + ((at + page_ - 1) / page_ * page_ - at);
    block.walls[1] = block.walls[0] + page_ + readable;
    protect(block, PROT_NONE);
    char* const data = block.walls[1] - bytes;
    blocks_[data] = block;
    return data;
  }
  void deallocate(void* pointer, size_t) noexcept override {
    const Block block = blocks_[pointer];
    blocks_.erase(pointer);
    protect(block, PROT_READ | PROT_WRITE);
    gpu_->deallocate_host(block.all, block.bytes);
  }
  void* allocate_host(size_t bytes, const char* what) override { return allocate(bytes, what); }
  void deallocate_host(void* pointer, size_t bytes) noexcept override {
    deallocate(pointer, bytes);
  }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    stream.synchronize();
    std::memmove(to, from, bytes);
  }
  std::unique_ptr<Stream> make_stream() override { return gpu_->make_stream(); }
  std::unique_ptr<Event> make_event() override { return gpu_->make_event(); }
  std::string describe() const override { return gpu_->describe(); }
  size_t bytes_in_use() const override { return gpu_->bytes_in_use(); }
  size_t peak_bytes() const override { return gpu_->peak_bytes(); }

 private:
  struct Block {
    void* all = nullptr;
    size_t bytes = 0;
    char* walls[2] = {};
  };
  void protect(const Block& block, int access) const noexcept {
    for (char* wall : block.walls) EXPECT_EQ(::mprotect(wall, page_, access), 0);
  }

  const size_t page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::shared_ptr<Device> gpu_;
  std::map<void*, Block> blocks_;
};

class WalledOperands : public testing::Test {
 protected:
  static std::unique_ptr<Ops> make_ops() {
    auto gpu = make_cuda_device(0);
    auto stream = gpu->make_stream();
    CudaOpsOptions exact;
    exact.tf32 = false;
    auto inner = make_cuda_ops(*gpu, *stream, exact);
    return make_mirrored_ops(std::make_shared<WalledMemory>(std::move(gpu)), std::move(stream),
                             std::move(inner));
  }
  std::unique_ptr<Ops> ops = make_ops(), reference = Machine().reference();
};

TEST_F(WalledOperands, OfEveryOperationAreEnough) {
  for (const CheckedCase& of : checked_cases()) {
    if (of.name.starts_with("group_rows")) continue;  // without the room that a GPU needs
    EXPECT_NO_THROW(of.run(*ops)) << of.name;
  }
}

/// Aligned ones, which kernels read several elements at a time, and others.
TEST_F(WalledOperands, OfEveryWidthAreEnough) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t width : {1, 3, 4, 8, 12, 24, 33, 36, 64, 72, 130}) {
      for (const int64_t rows : {1, 7}) {
        SCOPED_TRACE(fmt::format("{} x {} {}", rows, width, name_of(type)));
        const auto cells = [&](int64_t cols, unsigned seed, int64_t count = 0) {
          return Cells::random(count > 0 ? count : rows, cols, seed, type, 0);
        };
        Cells x = cells(width, 1), e = cells(2 * width, 2), z = cells(width + 3, 3);
        Cells fm = cells(3 * width + 1, 4), a = cells(width, 5), b = cells(width, 6);
        Cells w = cells(width, 7, 1), square = cells(width, 8, width), y = cells(1, 9);
        Cells dw(width, width, DType::kFloat32, 0), sums(1, width, DType::kFloat32, 0);
        Cells wide(rows, width, DType::kFloat32, 0), half(rows, width, DType::kFloat16, 0);
        const auto list = [&](Cells& of) {
          return View<float>(of.floats().data, static_cast<size_t>(of.rows() * of.cols()));
        };
        ops->dot_forward(x.matrix(), e.matrix(), z.matrix());
        ops->dot_backward(x.matrix(), e.matrix(), z.matrix(), a.matrix(), e.matrix());
        ops->run(FmForward{x.matrix(), e.matrix(), fm.matrix()});
        ops->run(FmBackward{x.matrix(), e.matrix(), fm.matrix(), a.matrix(), e.matrix()});
        ops->cross_forward(x.matrix(), a.matrix(), b.matrix());
        ops->cross_backward(x.matrix(), a.matrix(), b.matrix());
        Cells t = cells(width, 10, 2 * rows), dy = cells(width, 11), du = cells(width, 12);
        ops->cross_input_backward(x.matrix(), t.matrix(), dy.matrix(), a.matrix(), du.matrix(),
                                  b.matrix());
        Cells windows = cells((width + 2) / 3, 13);
        ops->average_pool_forward(x.matrix(), 3, windows.matrix());
        ops->average_pool_backward(windows.matrix(), 3, x.matrix());
        ops->convert(x.matrix(), half.matrix());
        ops->convert(half.matrix(), wide.matrix());
        ops->add(x.matrix(), wide.matrix());
        Cells column = cells(1, 16);
        ops->run(AddRowSums{x.matrix(), column.matrix()});
        ops->run(RepeatColumn{column.matrix(), a.matrix()});
        ops->dropout(1, 0.5, {}, x.matrix(), a.matrix());
        std::vector<float> means(static_cast<size_t>(rows)), inverse(means);
        std::vector<float> dscale(static_cast<size_t>(width)), dshift(dscale);
        ops->run(LayerNormForward{
            x.matrix(), list(sums), list(sums), Activation::kRelu, a.matrix(), {}, means, inverse});
        ops->run(
            LayerNormBackward{x.matrix(), list(sums), means, inverse, a.matrix(), dscale, dshift});
        float bad = 0;
        ops->find_non_finite(x.matrix(), {&bad, 1});
        for (const Activation act : {Activation::kRelu, Activation::kGelu, Activation::kTanh}) {
          ops->linear_forward(x.matrix(), square.matrix(), list(sums), act, a.matrix(), b.matrix());
          ops->activation_backward(act, a.matrix(), b.matrix(), x.matrix());
        }
        ops->linear_forward(x.matrix(), w.matrix(), {}, Activation::kNone, y.matrix(), {});
        for (Cells* weight : {&w, &square}) {
          Cells& out = weight == &w ? y : b;
          LinearBackward l;
          l.dy = out.matrix(), l.x = x.matrix(), l.w = weight->matrix(), l.dx = a.matrix();
          l.dw = {dw.floats().data, weight->rows(), width, width};
          l.dbias = list(sums).subspan(0, static_cast<size_t>(weight->rows()));
          ops->run(l);
        }
        for (const OptimizerStep& step : every_rule(kDense)) {
          Cells s1 = wide, s2 = wide;
          for (int64_t i = 0; i < rows * width; ++i) {
            s1.set(i / width, i % width, 1), s2.set(i / width, i % width, 1);
          }
          const int states = traits_of(step.rule).state_count();
          std::vector<BFloat16> copy(static_cast<size_t>(rows * width));
          Cells g = wide;
          ops->dense_update(step, list(wide), list(g), states > 0 ? list(s1) : View<float>(),
                            states > 1 ? list(s2) : View<float>(), copy);
        }
        ops->clip_norm(list(wide), 1);
        double loss = 0;
        Cells logits = cells(1, 14, rows * width), d = logits;
        const std::vector<float> labels(static_cast<size_t>(rows * width), 1.0f);
        std::vector<float> p(labels);
        ops->bce_with_logits(logits.matrix(), {labels, labels}, 1, {&loss, 1}, d.matrix());
        ops->sigmoid(logits.matrix(), p);
        const std::vector<int64_t> count{rows};
        std::vector<float> squares(static_cast<size_t>(rows));
        ops->row_square_sums(count, wide.floats(), squares);
        RowTable table;
        table.weights = x.matrix().data, table.type = type, table.rows = rows;
        table.width = table.stride = width;
        for (const InitType init : kInitTypes) {
          for (const int64_t column : {0, 3}) ops->fill_rows(1, 2, column, {init, 1}, table);
        }
        Table of_rows(rows, width, type, 15, 0);
        const Backward batch(*reference, 9, rows, width, 0);
        Cells pooled = cells(width, 16, 9);
        Cells row_sums(batch.unique(), width, DType::kFloat32, 0);
        RunSpace space(batch.space);
        const BagGroup lookup = batch.bags[0].lookup(of_rows.rows(), pooled.matrix());
        ops->embedding_bag_forward({&lookup, 1});
        ops->embedding_bag_backward(space.runs(), batch.gradients, row_sums.floats());
        for (const OptimizerStep& step : every_rule(kSparse)) {
          ops->embedding_bag_update(step, of_rows.rows(step.rule), space.runs(), batch.gradients);
          ops->sparse_update(step, of_rows.rows(step.rule), space.rows, space.count,
                             row_sums.floats(), {}, width);
        }
        EXPECT_TRUE(x.margins_untouched());
      }
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
