#pragma once
// Notes what operations queue on an emulated GPU.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dlrm/device/stream_recording.h"
#include "dlrm/ops/ops.h"

#include "device/gpu_fixture.h"
#include "simt/simt.h"

namespace dlrm {

class NotedKernels : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    ops_ = make_cuda_ops(*device, *stream, CudaOpsOptions());
    begun_ = device->make_event();
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

  /// `marks`: events, and waits for them, are noted too.
  template <class Work>
  void note(const std::string& what, const Work& work, bool marks = false) {
    stream->synchronize();
    const auto recorder = record_streams([] { return 0; });
    stream->record(*begun_);  // so that the operations' own stream is number 0
    const uint64_t met = simt::counters().meetings;
    work();
    stream->synchronize();
    ops_->gradient_stream()->synchronize();
    std::string found;
    const std::vector<QueuedOperation> operations = recorder->take().operations;
    for (size_t i = 1; i < operations.size(); ++i) {
      const QueuedOperation& o = operations[i];
      const std::string on = o.stream > 0 ? fmt::format(" @{}", o.stream) : "";
      using Kind = QueuedOperation::Kind;
      if (o.kind == Kind::kKernel) {
        const std::string file = o.name.substr(0, o.name.find(':'));
        found += fmt::format(" {} {} x {}{};", file.substr(file.rfind('/') + 1), o.blocks,
                             o.threads, on);
      } else if (o.kind == Kind::kLibrary) {
        found += " " + o.name + (o.flops > 0 ? fmt::format(" {} flops", o.flops) : "") + on + ";";
      } else if (o.kind == Kind::kMark && marks) {
        found += fmt::format(" mark{};", on);
      }
    }
    const uint64_t more = simt::counters().meetings - met;
    text_ += what + ":" + found + (more > 0 ? fmt::format(" met {}", more) : "") + "\n";
    memory_.clear();
  }

  struct Field {
    int64_t rows, cols;
    DType type;
  };
  /// `call` takes matrices of these shapes. Their rows are apart, and aligned except for those of
  /// one matrix: its first element is not, or its second row, or its rows follow each other.
  template <class Call>
  void add_flaws(const std::string& name, const std::vector<Field>& fields, const Call& call) {
    const auto run = [&](const std::string& what, size_t flawed, int64_t spare, int64_t shift) {
      std::vector<Matrix> m;
      for (size_t i = 0; i < fields.size(); ++i) {
        const Field& f = fields[i];
        const int64_t aligned = (f.cols + 15) / 8 * 8 - f.cols;
        m.push_back(i == flawed
                        ? matrix(f.type, f.rows, f.cols, spare < 0 ? aligned + 1 : spare, shift)
                        : matrix(f.type, f.rows, f.cols, aligned));
      }
      note(fmt::format("{} {}{}", name_of(fields[0].type), name, what), [&] { call(m); });
    };
    run("", fields.size(), 0, 0);
    for (size_t i = 0; i < fields.size(); ++i) {
      const int64_t aligned = (fields[i].cols + 15) / 8 * 8 - fields[i].cols;
      run(fmt::format(", {} begins unaligned", i), i, aligned, 1);
      run(fmt::format(", {} continues unaligned", i), i, -1, 0);
      run(fmt::format(", {} without gaps", i), i, 0, 0);
    }
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Event> begun_;
  std::vector<Array<char>> memory_;
  std::string text_;
};

}  // namespace dlrm
