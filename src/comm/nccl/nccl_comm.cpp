#include "comm/device/nccl_comm.h"

#include <fstream>
#include <functional>
#include <utility>

#include "dlrm/comm/device_comm.h"
#include "dlrm/core/host_name.h"
#include "dlrm/device/cuda/runtime.h"

#include "bf16_node_sum.h"
#include "bf16_sum.h"
#include "comm/device/device_call.h"
#include "comm/device/device_choice.h"
#include "nccl_session.h"

namespace dlrm::comm {
namespace {

ncclDataType_t type_of(Reduction::Element element) {
  switch (element) {
    case Reduction::Element::kDouble:
      return ncclFloat64;
    case Reduction::Element::kInt64:
      return ncclInt64;
    case Reduction::Element::kFloat:
      break;
  }
  return ncclFloat32;
}

/// True if the values of a sum are rounded to bf16 on their way.
bool is_rounded(const Reduction& r) {
  switch (r.wire) {
    case DType::kFloat32:
      return false;
    case DType::kBFloat16:
      DLRM_CHECK(r.element == Reduction::Element::kFloat, "only floats are sent as bf16");
      return true;
    case DType::kFloat16:
      break;
  }
  DLRM_CHECK(false, "{} over a wire of {}", r.name, name_of(r.wire));
}

class NcclCall final : public DeviceCall {
 public:
  NcclCall(std::shared_ptr<NcclSession> session, NcclLane& lane)
      : DeviceCall(session->events(), session->host().engine(), *lane.stream),
        session_(std::move(session)) {}
  bool poll() override {
    session_->check_alive();
    return DeviceCall::poll();
  }
  bool enqueue_wait(Stream& stream) override {
    session_->check_alive();
    return DeviceCall::enqueue_wait(stream);
  }

 private:
  std::shared_ptr<NcclSession> session_;
};

class NcclComm final : public Communicator {
 public:
  explicit NcclComm(std::shared_ptr<NcclSession> session)
      : Communicator(session->host().engine()), session_(std::move(session)) {}

  int rank() const override { return session_->host().rank(); }
  int size() const override { return session_->host().size(); }
  std::string describe() const override { return "nccl " + nccl_version_text(session_->version()); }
  bool on_device() const override { return true; }
  bool blocks_host() const override { return false; }
  void check_alive() override { session_->check_alive(); }
  std::shared_ptr<void> before_end(std::function<void()> drop_graphs) override {
    return session_->before_end(std::move(drop_graphs));
  }

  /// Shares the session, so that all calls of a rank have one order.
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<NcclComm>(session_);
  }

  Pending start_exchange(Exchange exchange) override {
    const LayoutGuard guard(*engine()->call_pool(), exchange.layout);
    if (exchange.is_barrier) return session_->host().start_barrier();
    NcclLane& lane = session_->exchanges();
    session_->wait_for(exchange.stream, lane);
    copy_own_block(exchange, lane);
    send_and_receive(exchange, lane);
    return started(lane);
  }

  Pending start_reduction(Reduction r) override {
    NcclLane& lane = session_->sums();
    session_->wait_for(r.stream, lane);
    const bool rounded = size() > 1 && is_rounded(r);
    if (rounded && Bf16NodeSum::fits(session_->nodes())) {
      Bf16NodeSum(*session_, lane, r).enqueue();
    } else if (rounded) {
      Bf16Sum(*session_, lane, r).enqueue();
    } else {
      const auto sum = [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t stream) {
        session_->check(nccl.all_reduce(r.data, r.out, static_cast<size_t>(r.count),
                                        type_of(r.element), ncclSum, comm, stream));
      };
      session_->group(r.name, lane, sum);
    }
    return started(lane);
  }

 private:
  Pending started(NcclLane& lane) {
    return Pending(std::unique_ptr<NcclCall>(new (engine()->call_pool()) NcclCall(session_, lane)));
  }

  void copy_own_block(const Exchange& exchange, NcclLane& lane) {
    const auto own = static_cast<size_t>(rank());
    const ExchangeLayout& layout = exchange.layout;
    const int64_t bytes = layout.send_bytes[own];
    DLRM_CHECK(bytes == layout.receive_bytes[own], "{}: rank {} sends itself {} bytes, expects {}",
               exchange.name, rank(), bytes, layout.receive_bytes[own]);
    char* to = static_cast<char*>(exchange.receive) + layout.receive_offsets[own];
    const char* from = static_cast<const char*>(exchange.send) + layout.send_offsets[own];
    session_->device().copy(to, from, static_cast<size_t>(bytes), *lane.stream);
  }

  void send_and_receive(const Exchange& exchange, NcclLane& lane) {
    const ExchangeLayout& layout = exchange.layout;
    const auto queue = [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t s) {
      for (int hop = 1; hop < size(); ++hop) {
        const int to = (rank() + hop) % size(), from = (rank() + size() - hop) % size();
        const auto t = static_cast<size_t>(to), f = static_cast<size_t>(from);
        if (layout.send_bytes[t] > 0) {
          session_->check(
              nccl.send(static_cast<const char*>(exchange.send) + layout.send_offsets[t],
                        static_cast<size_t>(layout.send_bytes[t]), ncclInt8, to, comm, s));
        }
        if (layout.receive_bytes[f] > 0) {
          session_->check(
              nccl.recv(static_cast<char*>(exchange.receive) + layout.receive_offsets[f],
                        static_cast<size_t>(layout.receive_bytes[f]), ncclInt8, from, comm, s));
        }
      }
    };
    session_->group(exchange.name, lane, queue);
  }

  const std::shared_ptr<NcclSession> session_;
};

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

std::string why_no_nccl(Device& device) {
  return device.runs_cuda() ? nccl_library().obstacle : "the device is no GPU";
}

int nccl_version() { return nccl_library().version; }

std::unique_ptr<Communicator> make_nccl_comm(Communicator& host, Device& device) {
  return std::make_unique<NcclComm>(std::make_shared<NcclSession>(host.duplicate(), device));
}

}  // namespace dlrm::comm

namespace dlrm {

std::string gpu_identity(Device& device) {
  char bus[32] = "";
  DLRM_CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, cuda::facts(device).index));
  // Machines may share a name, as containers do.
  const std::string boot = comm::first_line("/proc/sys/kernel/random/boot_id").substr(0, 8);
  return fmt::format("{} of {} ({})", bus, host_name().substr(0, 31), boot).substr(0, 63);
}

}  // namespace dlrm
