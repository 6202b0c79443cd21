#include <algorithm>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "combine.h"
#include "element.h"
#include "exchanges.h"
#include "progress.h"

namespace dlrm {
namespace {

/// Every rank receives its part of everybody's data and adds it up in rank order.
template <class T>
class ReduceScatter final : public Call {
 public:
  ReduceScatter(Communicator& comm, View<const T> data, View<T> out)
      : Call(comm.engine()),
        comm_(comm),
        data_(data),
        out_(out),
        arrived_(comm.engine()),
        parts_(comm.engine()) {}

  void start() {
    arrived_.take(part(comm_.rank()).size() * kWidth * comm_.size());
    Exchange exchange =
        scatter_exchange(comm_, "reduce_scatter", data_.data(), arrived_.template as<void>(),
                         static_cast<int64_t>(data_.size()), kWidth);
    exchange.sequence = comm_.reserve(exchange.name, static_cast<int64_t>(data_.size_bytes()));
    phase_ = comm_.start_exchange(std::move(exchange));
    engine().add(*this);
  }

 private:
  static constexpr int64_t kWidth = static_cast<int64_t>(sizeof(T));

  bool step() override {
    if (!phase_.poll()) return false;
    const Range own = part(comm_.rank());
    parts_.take(static_cast<int64_t>(sizeof(const T*)) * comm_.size());
    const View<const T*> parts(parts_.template as<const T*>(), static_cast<size_t>(comm_.size()));
    for (int q = 0; q < comm_.size(); ++q) {
      parts[static_cast<size_t>(q)] = arrived_.template as<T>() + q * own.size();
    }
    parts[static_cast<size_t>(comm_.rank())] = data_.data() + own.begin;
    combine_in_rank_order<Sum, T, T>(View<const T* const>(parts), own.size(), out_.data());
    return true;
  }

  Range part(int q) const { return part_of(static_cast<int64_t>(data_.size()), q, comm_.size()); }

  Communicator& comm_;
  View<const T> data_;
  View<T> out_;
  Scratch arrived_, parts_;
  Pending phase_;
};

}  // namespace

template <class T>
Pending Communicator::start_reduce_scatter(View<const T> data, View<T> out, Stream* stream) {
  const Range own = part_of(static_cast<int64_t>(data.size()), rank(), size());
  DLRM_CHECK(static_cast<int64_t>(out.size()) == own.size(), "reduce_scatter: {} values for {}",
             own.size(), out.size());
  if (on_device() && !data.empty()) {
    reserve("reduce_scatter", static_cast<int64_t>(data.size_bytes()));
    return start_reduction({.name = "reduce_scatter",
                            .scatter = true,
                            .data = data.data(),
                            .out = out.data(),
                            .count = static_cast<int64_t>(data.size()),
                            .element = element_of<T>(),
                            .stream = stream});
  }
  if (size() > 1) return start_call<ReduceScatter<T>>(*this, data, out);
  reserve("reduce_scatter", static_cast<int64_t>(data.size_bytes()));
  if (out.data() != data.data()) std::copy(data.begin(), data.end(), out.begin());
  return {};
}

template Pending Communicator::start_reduce_scatter<float>(View<const float>, View<float>, Stream*);
template Pending Communicator::start_reduce_scatter<double>(View<const double>, View<double>,
                                                            Stream*);
template Pending Communicator::start_reduce_scatter<int64_t>(View<const int64_t>, View<int64_t>,
                                                             Stream*);

}  // namespace dlrm
