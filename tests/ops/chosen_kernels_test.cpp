// Which kernels operations launch on an emulated GPU, with their blocks and threads, compared with
// a file: for shapes on both sides of each limit, and with each operand unaligned in turn. Several
// kernels give equal results, so nothing else shows that another one was chosen, or that a grid has
// blocks without work. What another stream gets is marked with its number. `met` counts how often
// lanes or threads met: loops that run in vain meet more often. Whoever changes one on purpose
// writes the file anew with DLRM_UPDATE_COUNTS=1.
#if defined(DLRM_SIMT)
#include <algorithm>

#include "noted_kernels.h"
#include "pinned_text.h"

namespace dlrm {
namespace {

class ChosenKernels : public NotedKernels {
 protected:
  void add_dots() {
    struct Shape {
      int64_t batch, features, width, spare = 0, shift = 0;
    };
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const Shape& s :
           {Shape{1, 2, 4}, Shape{9, 15, 16}, Shape{3, 16, 16}, Shape{2, 31, 8}, Shape{2, 32, 8},
            Shape{2, 2, 1020}, Shape{2, 2, 1024}, Shape{2, 2, 1028}, Shape{2, 2, 2048},
            Shape{7, 130, 8}, Shape{7, 380, 8}, Shape{2, 2, 6}, Shape{2, 2, 8, 2},
            Shape{2, 2, 8, 4}, Shape{2, 2, 8, 4, 2}}) {
        const int64_t outputs = s.width + (s.features + 1) * s.features / 2;
        const std::string name = fmt::format("{} {} x {} x {} spare {} shift {}", name_of(type),
                                             s.batch, s.features, s.width, s.spare, s.shift);
        const Matrix x = matrix(type, s.batch, s.width, s.spare, s.shift);
        const Matrix e = matrix(type, s.batch, s.features * s.width, s.spare);
        const Matrix z = matrix(type, s.batch, outputs);
        note("dot forward " + name, [&] { ops_->dot_forward(x, e, z); });
        const Matrix y = matrix(type, s.batch, s.width, s.spare, s.shift);
        const Matrix f = matrix(type, s.batch, s.features * s.width, s.spare);
        const Matrix dz = matrix(type, s.batch, outputs), dx = matrix(type, s.batch, s.width);
        const Matrix de = matrix(type, s.batch, s.features * s.width);
        note("dot backward " + name, [&] { ops_->dot_backward(y, f, dz, dx, de); });
      }
    }
  }

  void add_layers() {
    struct Shape {
      int64_t batch, inputs, outputs;
    };
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const Shape& s : {Shape{1, 1, 1}, Shape{70, 33, 1}, Shape{3, 1030, 1}, Shape{65, 32, 2},
                             Shape{129, 16, 64}, Shape{5, 8, 1025}}) {
        const std::string name =
            fmt::format("{} {} x {} x {}", name_of(type), s.batch, s.inputs, s.outputs);
        {
          const Matrix x = matrix(type, s.batch, s.inputs), w = matrix(type, s.outputs, s.inputs);
          const Matrix y = matrix(type, s.batch, s.outputs), z = matrix(type, s.batch, s.outputs);
          const auto bias = view<const float>(s.outputs);
          note("linear forward " + name,
               [&] { ops_->linear_forward(x, w, bias, Activation::kGelu, y, z); });
        }
        {
          const Matrix dz = matrix(type, s.batch, s.outputs);
          const Matrix w = matrix(type, s.outputs, s.inputs), dx = matrix(type, s.batch, s.inputs);
          note("linear backward input " + name, [&] { ops_->linear_backward_input(dz, w, dx); });
        }
        {
          const Matrix dz = matrix(type, s.batch, s.outputs), x = matrix(type, s.batch, s.inputs);
          const Matrix dw = matrix(DType::kFloat32, s.outputs, s.inputs);
          const auto dbias = view<float>(s.outputs);
          note("linear backward weight " + name,
               [&] { ops_->linear_backward_weight(dz, x, dw.f32(), dbias); });
        }
        {
          const Matrix y = matrix(type, s.batch, s.outputs), z = matrix(type, s.batch, s.outputs);
          const Matrix dy = matrix(type, s.batch, s.outputs);
          note("activation backward " + name,
               [&] { ops_->activation_backward(Activation::kSilu, y, z, dy); });
        }
        {
          const Matrix x = matrix(type, s.batch, s.outputs, 1);
          const Matrix y = matrix(DType::kFloat32, s.batch, s.outputs);
          note("convert " + name, [&] { ops_->convert(x, y); });
        }
      }
    }
  }

  void add_tables() {
    struct Shape {
      int64_t bags, hotness, width, rows = 64, room = 0;
    };
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const Shape& s :
           {Shape{1, 1, 1}, Shape{300, 1, 2}, Shape{70, 3, 4}, Shape{70, 3, 5}, Shape{33, 2, 8},
            Shape{33, 9, 32}, Shape{33, 2, 33}, Shape{40, 2, 64}, Shape{40, 2, 128},
            Shape{7, 2, 256}, Shape{3, 600, 16, 3}, Shape{3, 2, 1024}, Shape{40, 2, 8, 70000},
            Shape{40, 2, 8, 64, 140000}}) {
        const int64_t count = s.bags * s.hotness, room = std::max(count, s.room);
        const std::string name =
            fmt::format("{} {} bags of {} x {} of {} rows{}", name_of(type), s.bags, s.hotness,
                        s.width, s.rows, s.room > 0 ? fmt::format(", room for {}", s.room) : "");
        std::vector<int64_t> ids, offsets;
        for (int64_t i = 0; i < count; ++i) ids.push_back(i * 7 % s.rows);
        for (int64_t b = 0; b <= s.bags; ++b) offsets.push_back(b * s.hotness);
        const Matrix weights = matrix(type, s.rows, s.width),
                     pooled = matrix(type, s.bags, s.width);
        BagGroup group;
        group.table.weights = weights.data, group.table.type = type;
        group.table.rows = s.rows, group.table.width = group.table.stride = s.width;
        group.ids = kept(ids), group.offsets = kept(offsets), group.bags = s.bags;
        group.pooled = pooled, group.capacity = count;
        std::vector<Array<char>> operands;
        operands.swap(memory_);
        note("lookup " + name, [&] { ops_->embedding_bag_forward({&group, 1}); });
        const IdGroup of{group.ids, group.offsets, s.bags, count};
        const SegmentedRows runs{view<int64_t>(room), view<int64_t>(room + 1),
                                 view<Occurrence>(room), view<int64_t>(1)};
        for (auto& array : memory_) operands.push_back(std::move(array));
        memory_.clear();
        note("sort " + name, [&] { ops_->group_rows({&of, 1}, s.rows, runs); });
        const BagGradient gradient{pooled, nullptr};
        note("sum " + name, [&] {
          const Matrix grads = matrix(DType::kFloat32, room, s.width);
          ops_->embedding_bag_backward(runs, {&gradient, 1}, grads.f32());
          stream->synchronize();
        });
        note("update " + name, [&] {
          OptimizerStep step;
          ops_->embedding_bag_update(step, group.table, runs, {&gradient, 1});
        });
      }
    }
  }

  void add_elements() {
    for (const int64_t n : {1, 255, 256, 257, 1023, 1024, 4097, 100000}) {
      const auto w = view<float>(n), g = view<float>(n);
      note(fmt::format("dense update {}", n), [&] {
        OptimizerStep step;
        ops_->dense_update(step, w, g, {}, {}, {});
      });
      const Matrix x = matrix(DType::kFloat32, n, 3), y = matrix(DType::kFloat32, n, 3);
      note(fmt::format("add {}", n), [&] { ops_->add(x, y); });
      const Matrix a = matrix(DType::kBFloat16, 3, n);
      const auto bad = view<float>(1);
      note(fmt::format("find {}", n), [&] { ops_->find_non_finite(a, bad); });
      const Matrix logits = matrix(DType::kFloat32, n, 1);
      const auto p = view<float>(n);
      note(fmt::format("sigmoid {}", n), [&] { ops_->sigmoid(logits, p); });
      BlockCopy block;
      block.src = zeros(8 * n), block.dst = zeros(8 * n), block.rows = n;
      block.src_stride = block.dst_stride = block.cols = 2;
      note(fmt::format("copy {}", n), [&] { ops_->copy_blocks({&block, 1}); });
    }
  }

  void add_unaligned() {
    using Matrices = std::vector<Matrix>;
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      const Field x{40, 64, type}, e{40, 192, type}, column{40, 1, type}, row{1, 64, type};
      add_flaws("dot forward", {x, e, {40, 70, type}},
                [&](const Matrices& m) { ops_->dot_forward(m[0], m[1], m[2]); });
      add_flaws("dot backward", {x, e, {40, 70, type}, x, e},
                [&](const Matrices& m) { ops_->dot_backward(m[0], m[1], m[2], m[3], m[4]); });
      add_flaws("fm forward", {x, e, {40, 257, type}}, [&](const Matrices& m) {
        ops_->run(FmForward{m[0], m[1], m[2]});
      });
      add_flaws("fm backward", {x, e, {40, 257, type}, x, e}, [&](const Matrices& m) {
        ops_->run(FmBackward{m[0], m[1], m[2], m[3], m[4]});
      });
      add_flaws("cross forward", {x, x, x},
                [&](const Matrices& m) { ops_->cross_forward(m[0], m[1], m[2]); });
      add_flaws("cross backward", {x, x, x},
                [&](const Matrices& m) { ops_->cross_backward(m[0], m[1], m[2]); });
      for (const int64_t layers : {1, 2}) {
        const Field t{layers * 40, 64, type};
        add_flaws(fmt::format("backward of {} cross layers", layers), {x, t, x, x, x, x},
                  [&](const Matrices& m) {
                    ops_->cross_input_backward(m[0], m[1], m[2], m[3], m[4], m[5]);
                  });
      }
      add_flaws("add", {x, x}, [&](const Matrices& m) { ops_->add(m[0], m[1]); });
      add_flaws("convert", {x, {40, 64, DType::kBFloat16}},
                [&](const Matrices& m) { ops_->convert(m[0], m[1]); });
      add_flaws("silu backward", {x, x}, [&](const Matrices& m) {
        ops_->activation_backward(Activation::kSilu, {}, m[0], m[1]);
      });
      add_flaws("find", {x}, [&](const Matrices& m) {
        ops_->find_non_finite(m[0], view<float>(1));
        stream->synchronize();
      });
      add_flaws("one output", {x, row, column}, [&](const Matrices& m) {
        ops_->linear_forward(m[0], m[1], {}, Activation::kNone, m[2], {});
      });
      add_flaws("backward input of one output", {column, row, x},
                [&](const Matrices& m) { ops_->linear_backward_input(m[0], m[1], m[2]); });
      add_flaws("backward of one output", {column, x, row, x}, [&](const Matrices& m) {
        const Matrix dw = matrix(DType::kFloat32, 1, 64);
        LinearBackward l;
        l.dy = m[0], l.x = m[1], l.w = m[2], l.dx = m[3], l.dw = dw.f32();
        ops_->run(l);
        stream->synchronize();
      });
      add_flaws("layer", {x, {64, 64, type}, x}, [&](const Matrices& m) {
        ops_->linear_forward(m[0], m[1], {}, Activation::kSigmoid, m[2], {});
      });
      add_flaws("backward weight", {x, {40, 8, type}}, [&](const Matrices& m) {
        const Matrix dw = matrix(DType::kFloat32, 64, 8);
        ops_->linear_backward_weight(m[0], m[1], dw.f32(), view<float>(64));
        stream->synchronize();
      });
    }
    for (const size_t which : {0, 1, 2, 3, 4, 5}) {
      std::vector<float*> at;
      constexpr size_t kCount = 4096;
      for (size_t i = 0; i < 5; ++i) {
        at.push_back(reinterpret_cast<float*>(zeros(4 * kCount, i == which ? i == 4 ? 2 : 4 : 0)));
      }
      OptimizerStep step;
      step.rule = OptimizerRule::kAdam;
      note(fmt::format("adam, {} unaligned", which), [&] {
        ops_->dense_update(step, {at[0], kCount}, {at[1], kCount}, {at[2], kCount}, {at[3], kCount},
                           {reinterpret_cast<BFloat16*>(at[4]), kCount});
      });
    }
  }

  /// The side stream gets the gradients of weights, also of layers without rows or columns.
  void add_backward() {
    struct Shape {
      int64_t batch, inputs, outputs;
    };
    for (const Shape& s : {Shape{40, 8, 16}, Shape{0, 8, 16}, Shape{40, 0, 16}, Shape{40, 8, 0},
                           Shape{40, 8, 1}, Shape{0, 8, 1}, Shape{0, 0, 16}, Shape{40, 5, 3}}) {
      for (const bool deferred : {false, true}) {
        for (const char* left_out : {"nothing", "dx", "dw", "dbias"}) {
          const std::string out = left_out;
          if (out == "dw" && !deferred) continue;
          const DType type = DType::kBFloat16;
          const Matrix dw = matrix(DType::kFloat32, s.outputs, s.inputs);
          LinearBackward l;
          l.act = Activation::kSilu;
          l.z = matrix(type, s.batch, s.outputs), l.dy = matrix(type, s.batch, s.outputs);
          l.x = matrix(type, s.batch, s.inputs), l.w = matrix(type, s.outputs, s.inputs);
          l.deferred = deferred;
          if (out != "dx") l.dx = matrix(type, s.batch, s.inputs);
          if (out != "dw") l.dw = dw.f32();
          if (out != "dw" && out != "dbias") l.dbias = view<float>(s.outputs);
          note(
              fmt::format("backward {} x {} x {}{} without {}", s.batch, s.inputs, s.outputs,
                          deferred ? " deferred" : "", out),
              [&] { ops_->run(l); }, true);
        }
      }
    }
  }
};

TEST_F(ChosenKernels, AreThoseOfTheFile) {
  add_dots();
  add_layers();
  add_tables();
  add_elements();
  add_unaligned();
  add_backward();
  expect_text_of_file(text_, DLRM_SOURCE "/tests/ops/chosen_kernels.txt");
}

}  // namespace
}  // namespace dlrm
#endif
