#include "self_comm.h"

#include <utility>

#include "dlrm/comm/communicator.h"

#include "comm/calls/progress_engine.h"
#include "comm/collectives/exchanges.h"

namespace dlrm::comm {
namespace {

class SelfComm final : public Communicator {
 public:
  explicit SelfComm(std::shared_ptr<ProgressEngine> engine) : Communicator(std::move(engine)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string describe() const override { return "alone"; }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<SelfComm>(engine());
  }
  Pending start_exchange(Exchange exchange) override {
    copy_own_block(exchange, 0, *engine());
    engine()->call_pool()->release(std::move(exchange.layout));
    return {};
  }
};

}  // namespace

std::unique_ptr<Communicator> make_self_comm(std::shared_ptr<ProgressEngine> engine) {
  return std::make_unique<SelfComm>(std::move(engine));
}

}  // namespace dlrm::comm

namespace dlrm {

std::unique_ptr<Communicator> make_self_comm() {
  return comm::make_self_comm(std::make_shared<comm::ProgressEngine>(comm::WaitPolicy::kSpin));
}

}  // namespace dlrm
