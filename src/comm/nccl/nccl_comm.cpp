#include "../nccl_comm.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include <unistd.h>

#include "dlrm/core/partition.h"
#include "dlrm/device/cuda/runtime.h"

#include "../device_call.h"
#include "../device_choice.h"
#include "../element.h"
#include "bf16_sum.h"
#include "nccl_session.h"

namespace dlrm {
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

bool is(const Exchange& exchange, const char* name) {
  return std::strcmp(exchange.name, name) == 0;
}

/// Whether every rank sends and receives the same bytes, so that all of them find it so.
bool is_even(const std::vector<int64_t>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [&](int64_t b) { return b == bytes[0]; });
}

class NcclCall final : public DeviceCall {
 public:
  explicit NcclCall(std::shared_ptr<NcclSession> session)
      : DeviceCall(session->events(), session->host().engine(), session->stream()),
        session_(std::move(session)) {}
  bool poll() override {
    session_->check_alive();
    return DeviceCall::poll();
  }
  bool order(Stream& stream) override {
    session_->check_alive();
    return DeviceCall::order(stream);
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

  /// The same NCCL communicator: its calls come in one order, this one's among them.
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<NcclComm>(session_);
  }

  Pending start_exchange(Exchange exchange) override {
    const LayoutReturn done(*engine()->memory(), exchange.layout);
    if (exchange.rendezvous) return session_->host().start_barrier();
    session_->begin_after(exchange.stream);
    if (is(exchange, "broadcast")) {
      broadcast_of(exchange);
    } else if (is(exchange, "allgatherv") && is_even(exchange.layout.receive_bytes)) {
      allgather(exchange);
    } else {
      blocks(exchange);
    }
    return started();
  }

  Pending start_reduction(Reduction r) override {
    session_->begin_after(r.stream);
    const bool rounded = r.wire == DType::kBFloat16 && size() > 1;
    DLRM_CHECK(rounded || r.wire == DType::kFloat32 || size() == 1, "{} over a wire of {}", r.name,
               name_of(r.wire));
    if (rounded) {
      DLRM_CHECK(!r.scatter && r.element == Reduction::Element::kFloat,
                 "only allreduces of floats travel as bf16");
      Bf16Sum(*session_, r).queue();
    } else if (r.scatter) {
      reduce_scatter(r);
    } else {
      session_->group(r.name, [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t stream) {
        session_->check(nccl.all_reduce(r.data, r.out, static_cast<size_t>(r.count),
                                        type_of(r.element), ncclSum, comm, stream));
      });
    }
    return started();
  }

 private:
  Pending started() {
    return Pending(std::unique_ptr<NcclCall>(new (engine()->memory()) NcclCall(session_)));
  }

  void copy(void* to, const void* from, int64_t bytes) {
    if (bytes == 0 || to == from) return;
    session_->device().copy(to, from, static_cast<size_t>(bytes), session_->stream());
  }

  void copy_own_block(const Exchange& exchange) {
    const auto own = static_cast<size_t>(rank());
    const ExchangeLayout& layout = exchange.layout;
    DLRM_CHECK(layout.send_bytes[own] == layout.receive_bytes[own],
               "{}: rank {} sends itself {} bytes, expects {}", exchange.name, rank(),
               layout.send_bytes[own], layout.receive_bytes[own]);
    copy(static_cast<char*>(exchange.receive) + layout.receive_offsets[own],
         static_cast<const char*>(exchange.send) + layout.send_offsets[own],
         layout.send_bytes[own]);
  }

  void blocks(const Exchange& exchange) {
    copy_own_block(exchange);
    const ExchangeLayout& layout = exchange.layout;
    session_->group(exchange.name, [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t s) {
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
    });
  }

  void broadcast_of(const Exchange& exchange) {
    const std::vector<int64_t>& bytes = exchange.layout.receive_bytes;
    const auto root = std::max_element(bytes.begin(), bytes.end());
    if (*root == 0) return;
    session_->group(exchange.name, [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t s) {
      session_->check(nccl.broadcast(exchange.send, exchange.receive, static_cast<size_t>(*root),
                                     ncclInt8, static_cast<int>(root - bytes.begin()), comm, s));
    });
  }

  void allgather(const Exchange& exchange) {
    const ExchangeLayout& layout = exchange.layout;
    const int64_t bytes = layout.receive_bytes[0];
    if (bytes == 0) return;
    bool packed = true;
    for (size_t q = 0; q < layout.receive_bytes.size(); ++q) {
      packed &=
          layout.receive_offsets[q] == layout.receive_offsets[0] + static_cast<int64_t>(q) * bytes;
    }
    char* receive = static_cast<char*>(exchange.receive);
    void* all = packed ? static_cast<void*>(receive + layout.receive_offsets[0])
                       : session_->scratch(static_cast<size_t>(bytes * size()));
    const char* mine =
        static_cast<const char*>(exchange.send) + layout.send_offsets[static_cast<size_t>(rank())];
    session_->group(exchange.name, [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t s) {
      session_->check(nccl.all_gather(mine, all, static_cast<size_t>(bytes), ncclInt8, comm, s));
    });
    for (size_t q = 0; !packed && q < layout.receive_bytes.size(); ++q) {
      copy(receive + layout.receive_offsets[q],
           static_cast<const char*>(all) + static_cast<int64_t>(q) * bytes, bytes);
    }
  }

  /// Parts differ by one element, which NCCL's own reduce-scatter does not allow.
  void reduce_scatter(const Reduction& r) {
    const int64_t width = width_of(r.element);
    session_->group(r.name, [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t stream) {
      for (int q = 0; q < size(); ++q) {
        const Range part = part_of(r.count, q, size());
        if (part.size() == 0) continue;
        const char* from = static_cast<const char*>(r.data) + part.begin * width;
        session_->check(nccl.reduce(from, q == rank() ? r.out : nullptr,
                                    static_cast<size_t>(part.size()), type_of(r.element), ncclSum,
                                    q, comm, stream));
      }
    });
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

std::string gpu_identity(Device& device) {
  char bus[32] = "", machine[32] = "";
  DLRM_CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, cuda::facts(device).index));
  if (::gethostname(machine, sizeof machine) != 0) machine[0] = '\0';
  machine[sizeof machine - 1] = '\0';
  // Machines may share a name, as containers do.
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id").substr(0, 8);
  return fmt::format("{} of {} ({})", bus, machine, boot).substr(0, 63);
}

std::unique_ptr<Communicator> make_nccl_comm(Communicator& host, Device& device) {
  const std::string obstacle = why_no_nccl(device);
  if (!obstacle.empty()) throw usage_error("comm nccl: {}", obstacle);
  return std::make_unique<NcclComm>(std::make_shared<NcclSession>(host.duplicate(), device));
}

}  // namespace dlrm
