#include "dlrm/train/execution.h"

#include <algorithm>

#include "dlrm/comm/device_comm.h"
#include "dlrm/config/buildable.h"

namespace dlrm {
namespace {

constexpr int kTimedProducts = 8;  // algorithms timed per shape of a product; later ones rarely win

bool on_gpu(Communicator& comm, DeviceKind kind) {
  if (kind == DeviceKind::kCuda) return true;
  if (kind == DeviceKind::kCpu || !built_with_cuda() || cuda_is_emulated()) return false;
  int64_t ranks_without = cuda_device_count() > 0 ? 0 : 1;
  comm.allreduce_max({&ranks_without, 1});
  return ranks_without == 0;
}

DeviceCommKind kind_of(CommKind kind) {
  switch (kind) {
    case CommKind::kAuto:
      return DeviceCommKind::kAuto;
    case CommKind::kNccl:
      return DeviceCommKind::kNccl;
    case CommKind::kMpi:
    case CommKind::kStaged:
      break;
  }
  return DeviceCommKind::kStaged;
}

/// Makes the first calls of a communicator, which allocate its memory and connect the ranks. This
/// happens before memory is planned and before the first step.
void warm_up(Communicator& vectors, Device& device, Stream& stream) {
  const auto world = static_cast<size_t>(vectors.size());
  Array<float> sent(device, world, "first exchange"), received(device, world, "first exchange");
  ExchangeLayout layout;
  layout.send_bytes = layout.receive_bytes = std::vector<int64_t>(world, sizeof(float));
  for (size_t q = 0; q < world; ++q) {
    layout.send_offsets.push_back(static_cast<int64_t>(q * sizeof(float)));
  }
  layout.receive_offsets = layout.send_offsets;
  Pending exchange = vectors.start_alltoallv(sent.data(), received.data(), layout, &stream);
  exchange.wait(stream);
  Pending sum = vectors.start_allreduce<float>(sent.view(), DType::kFloat32, &stream);
  sum.wait(stream);
  stream.synchronize();
}

/// Options that are equal on all ranks, so that all make the same plan. Each memory size is the
/// least of any rank. Collective.
PlanOptions agreed_options(Communicator& comm, const PlanOptions& own) {
  const auto whole = [](double bytes) { return static_cast<int64_t>(std::min(bytes, 0x1p62)); };
  int64_t negative[] = {-whole(own.rank_memory_bytes), -whole(own.host_memory_bytes)};
  comm.allreduce_max(negative);
  PlanOptions options = own;
  options.rank_memory_bytes = static_cast<double>(-negative[0]);
  options.host_memory_bytes = static_cast<double>(-negative[1]);
  comm.broadcast(&options.ranks_per_node, sizeof(options.ranks_per_node), 0);
  const std::vector<int> nodes = comm.nodes();
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    options.scattered |=
        nodes[rank] != static_cast<int>(rank) / std::max(options.ranks_per_node, 1);
  }
  return options;
}

}  // namespace

Execution::Execution(Communicator& comm, const RunConfig& config, const MachineShare& share)
    : comm_(comm),
      tf32_(config.train.tf32),
      pin_algorithms_(config.train.pin_algorithms),
      threads_(threads_for(config.train.threads, share)) {
  PlanOptions own;
  own.ranks_per_node = share.ranks_here;
  if (!on_gpu(comm, config.device)) {
    check_host_comm(config.comm);
    device_ = make_cpu_device();
    stream_ = device_->make_stream();
    own.rank_memory_bytes = share.memory_bytes;
    plan_options_ = agreed_options(comm, own);
    return;
  }
  const int gpus = std::max(1, cuda_device_count());
  device_ = make_cuda_device(share.rank_here % gpus);
  stream_ = device_->make_urgent_stream();
  DeviceCommOptions options;
  options.kind = kind_of(config.comm);
  device_comm_ = make_device_comm(comm, *device_, options);
  warm_up(*device_comm_, *device_, *stream_);
  comm.barrier();
  const auto free = static_cast<double>(device_->available_bytes());
  comm.barrier();  // every rank has read the free memory before any rank allocates
  own.gpu = true;
  own.rank_memory_bytes = free / ranks_that_name(comm, gpu_identity(*device_));
  own.host_memory_bytes = share.memory_bytes;
  plan_options_ = agreed_options(comm, own);
  if (!comm.needs_progress()) return;
  device_->set_progress([this] {
    comm_.make_progress();
    device_comm_->check_alive();
  });
}

Execution::~Execution() {
  settle(*stream_);
  device_->set_progress({});
}

Context Execution::context(Trace& trace, const Log& log) {
  return {*device_, *stream_, comm_, trace, log, device_comm_.get(), threads_};
}

std::unique_ptr<Ops> Execution::make_ops(int threads, bool check) {
  std::unique_ptr<Ops> ops;
  if (!device_->runs_cuda()) {
    ops = make_cpu_ops(*device_, *stream_, threads);
  } else {
    CudaOpsOptions options;
    options.tf32 = tf32_;
    options.timed_products = pin_algorithms_ ? 0 : kTimedProducts;
    options.log = Log(comm_.rank());
    ops = make_cuda_ops(*device_, *stream_, options);
  }
  return check ? make_checked_ops(std::move(ops), *device_, *stream_) : std::move(ops);
}

}  // namespace dlrm
