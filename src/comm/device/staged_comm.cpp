#include "staged_comm.h"

#include <utility>
#include <vector>

#include "comm/collectives/element.h"
#include "device_call.h"
#include "staged_call.h"
#include "staging.h"

namespace dlrm::comm {
namespace {

class StagedComm final : public Communicator {
 public:
  StagedComm(std::unique_ptr<Communicator> host, std::shared_ptr<Staging> staging)
      : Communicator(host->engine()), host_(std::move(host)), staging_(std::move(staging)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string describe() const override { return size() > 1 ? "staged" : "alone"; }
  bool on_device() const override { return true; }
  bool blocks_host() const override { return size() > 1; }
  void check_alive() override { host_->check_alive(); }
  const NodeLayout* node_layout() const override { return host_->node_layout(); }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<StagedComm>(host_->duplicate(), staging_);
  }

  Pending start_exchange(Exchange exchange) override {
    if (size() > 1) return start_call<StagedExchange>(context(), std::move(exchange));
    const LayoutGuard guard(*engine()->call_pool(), exchange.layout);
    const ExchangeLayout& layout = exchange.layout;
    DLRM_CHECK(layout.send_bytes[0] == layout.receive_bytes[0], "{}: {} bytes sent, {} expected",
               exchange.name, layout.send_bytes[0], layout.receive_bytes[0]);
    return copy_on_device(static_cast<char*>(exchange.receive) + layout.receive_offsets[0],
                          static_cast<const char*>(exchange.send) + layout.send_offsets[0],
                          layout.send_bytes[0], exchange.stream);
  }

  Pending start_reduction(Reduction reduction) override {
    if (size() > 1) return start_call<StagedReduction>(context(), reduction);
    return copy_on_device(reduction.out, reduction.data,
                          reduction.count * width_of(reduction.element), reduction.stream);
  }

 private:
  StagedContext context() { return {*host_, *staging_, queue_}; }

  /// The calls of a single rank. They use no host memory and do not block the host.
  Pending copy_on_device(void* to, const void* from, int64_t bytes, Stream* after) {
    const std::lock_guard lock(engine()->mutex());
    Stream& stream = staging_->out();
    if (after) {
      std::unique_ptr<Event> submitted = staging_->events()->acquire();
      after->record(*submitted);
      stream.wait(*submitted);
      staging_->events()->release(std::move(submitted));
    }
    staging_->device().copy(to, from, static_cast<size_t>(bytes), stream);
    return Pending(std::unique_ptr<DeviceCall>(
        new (engine()->call_pool()) DeviceCall(staging_->events(), engine(), stream)));
  }

  const std::unique_ptr<Communicator> host_;
  const std::shared_ptr<Staging> staging_;
  std::vector<const StagedCall*> queue_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_comm(Communicator& host, Device& device) {
  return std::make_unique<StagedComm>(host.duplicate(), std::make_shared<Staging>(device));
}

}  // namespace dlrm::comm
