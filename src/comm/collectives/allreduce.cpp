#include "dlrm/comm/communicator.h"

#include "chain_allreduce.h"
#include "comm/shared/shared_allreduce.h"
#include "element.h"
#include "general_allreduce.h"

namespace dlrm::comm {
namespace {

template <class Op, class T, class W>
Pending start_sum(Communicator& comm, ExchangeTable* table, const char* name, View<T> data) {
  const auto bytes = static_cast<int64_t>(data.size() * sizeof(W)) * (comm.size() - 1);
  if (table && bytes > kOneExchangeBytes) {
    return start_call<SharedAllreduce<Op, T, W>>(comm, *table, name, data);
  }
  const NodeLayout* nodes = comm.node_layout();
  if (nodes && chain_pays(*nodes, static_cast<int64_t>(data.size_bytes()))) {
    return start_call<ChainAllreduce<Op, T, W>>(comm, *nodes, name, data);
  }
  return start_call<GeneralAllreduce<Op, T, W>>(comm, name, data);
}

}  // namespace
}  // namespace dlrm::comm

namespace dlrm {

Pending Communicator::start_reduction(Reduction reduction) {
  DLRM_CHECK(false, "{} of device memory on a host communicator", reduction.name);
}

template <class T>
Pending Communicator::start_allreduce(View<T> data, DType wire, Stream* stream) {
  if (on_device() && !data.empty()) {
    const auto bytes = static_cast<int64_t>(data.size_bytes());
    reserve("allreduce", bytes, 2);
    return start_reduction({.name = "allreduce",
                            .data = data.data(),
                            .out = data.data(),
                            .count = static_cast<int64_t>(data.size()),
                            .element = comm::element_of<T>(),
                            .wire = wire,
                            .stream = stream});
  }
  if (size() == 1 || data.empty()) {
    reserve("allreduce", static_cast<int64_t>(data.size_bytes()), 2);
    return {};
  }
  switch (wire) {
    case DType::kFloat32:
      return comm::start_sum<comm::Sum, T, T>(*this, shared_table(), "allreduce", data);
    case DType::kBFloat16:
      if constexpr (std::is_same_v<T, float>) {
        return comm::start_sum<comm::Sum, T, BFloat16>(*this, shared_table(), "allreduce", data);
      }
      break;
    case DType::kFloat16:
      break;
  }
  DLRM_CHECK(false, "allreduce of these values over a wire of {}", name_of(wire));
}

template Pending Communicator::start_allreduce<float>(View<float>, DType, Stream*);
template Pending Communicator::start_allreduce<double>(View<double>, DType, Stream*);
template Pending Communicator::start_allreduce<int64_t>(View<int64_t>, DType, Stream*);

void Communicator::allreduce_max(View<int64_t> data) {
  DLRM_CHECK(!on_device(), "allreduce_max is for host memory");
  if (size() == 1 || data.empty()) {
    reserve("allreduce_max", static_cast<int64_t>(data.size_bytes()), 2);
    return;
  }
  comm::start_sum<comm::Max, int64_t, int64_t>(*this, shared_table(), "allreduce_max", data).wait();
}

}  // namespace dlrm
