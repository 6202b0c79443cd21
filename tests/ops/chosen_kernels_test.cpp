// Which kernels operations launch on an emulated GPU, with their blocks and threads, compared with
// a file: for shapes on both sides of each limit. Several kernels give equal results, so nothing
// else shows that another one was chosen, or that a grid has blocks without work. Whoever changes
// one on purpose writes the file anew with DLRM_UPDATE_COUNTS=1.
#if defined(DLRM_SIMT)
#include <algorithm>

#include <fmt/format.h>

#include "dlrm/device/stream_recording.h"
#include "dlrm/ops/ops.h"

#include "device/gpu_fixture.h"
#include "pinned_text.h"

namespace dlrm {
namespace {

class ChosenKernels : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    ops_ = make_cuda_ops(*device, *stream, {});
  }

  /// Zeros in device memory; `shift` bytes after the start of an allocation.
  char* zeros(int64_t bytes, int64_t shift = 0) {
    memory_.push_back(upload(std::vector<char>(static_cast<size_t>(bytes + shift))));
    return memory_.back().data() + shift;
  }
  Matrix matrix(DType type, int64_t rows, int64_t cols, int64_t spare = 0, int64_t shift = 0) {
    const auto element = static_cast<int64_t>(size_of(type));
    return {zeros(rows * (cols + spare) * element, shift * element), type, rows, cols,
            cols + spare};
  }
  template <class T>
  View<T> view(int64_t count) {
    return {reinterpret_cast<T*>(zeros(count * static_cast<int64_t>(sizeof(T)))),
            static_cast<size_t>(count)};
  }
  template <class T>
  T* kept(const std::vector<T>& values) {
    char* data = zeros(static_cast<int64_t>(values.size() * sizeof(T)));
    transfer->to_device(data, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T*>(data);
  }

  template <class Work>
  void note(const std::string& what, const Work& work) {
    stream->synchronize();
    const auto recorder = record_streams([] { return 0; });
    work();
    stream->synchronize();
    std::string found;
    for (const QueuedOperation& o : recorder->take().operations) {
      using Kind = QueuedOperation::Kind;
      if (o.kind == Kind::kKernel) {
        const std::string file = o.name.substr(0, o.name.find(':'));
        found += fmt::format(" {} {} x {};", file.substr(file.rfind('/') + 1), o.blocks, o.threads);
      } else if (o.kind == Kind::kLibrary) {
        found += " " + o.name + (o.flops > 0 ? fmt::format(" {} flops;", o.flops) : ";");
      }
    }
    text_ += what + ":" + found + "\n";
    memory_.clear();
  }

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

  std::unique_ptr<Ops> ops_;
  std::vector<Array<char>> memory_;
  std::string text_;
};

TEST_F(ChosenKernels, AreThoseOfTheFile) {
  add_dots();
  add_layers();
  add_tables();
  add_elements();
  expect_text_of_file(text_, DLRM_SOURCE "/tests/ops/chosen_kernels.txt");
}

}  // namespace
}  // namespace dlrm
#endif
