#pragma once
#include <memory>

#include "dlrm/device/cuda/activation.h"
#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/device.h"

#include "cuda/copy_plan.h"
#include "cuda/cuda_ops.h"
#include "cuda/device_lists.h"
#include "cuda/embedding_lists.h"
#include "cuda/products.h"
#include "cuda/scratch.h"

namespace dlrm {

/// The objects that the source files of CudaOps share.
struct CudaOps::Parts {
  Parts(Device& device, Stream& stream, const CudaOpsOptions& options)
      : scratch(device),
        lists(device, stream),
        side(device.make_stream()),
        products(device, stream, *side, scratch, options),
        forked(device.make_event()),
        joined(device.make_event()),
        link(device.make_stream()),
        link_scratch(device),
        link_forked(device.make_event()),
        link_joined(device.make_event()),
        device_(device) {}

  cuda::Activations& activations() {
    if (!activations_) activations_ = cuda::make_activations(device_);
    return *activations_;
  }

  /// Returns the link's stream, which first waits for the work that `main` holds now.
  cudaStream_t fork_link(Stream& main) {
    main.record(*link_forked);
    link->wait(*link_forked);
    return cuda::native(*link);
  }
  /// Makes `main` wait for the link's stream.
  void join_link(Stream& main) {
    link->record(*link_joined);
    main.wait(*link_joined);
  }

  Scratch scratch;               ///< of the main stream
  DeviceLists lists;             ///< of the main stream
  std::unique_ptr<Stream> side;  ///< weight gradients, while `main` computes input gradients
  Products products;             ///< on the main and the side stream
  std::unique_ptr<Event> forked, joined;
  /// Rows in the host's memory, while `main` processes those of the device.
  std::unique_ptr<Stream> link;
  Scratch link_scratch;  ///< of the link's stream
  std::unique_ptr<Event> link_forked, link_joined;
  cuda::CopyPlans copies;
  cuda::EmbeddingLists embedding;

 private:
  Device& device_;
  std::unique_ptr<cuda::Activations> activations_;
};

}  // namespace dlrm
