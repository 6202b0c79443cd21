#pragma once
#include <functional>
#include <memory>
#include <utility>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// A communicator of which a function starts the exchanges, and those of its duplicates.
class ChangedExchanges final : public Communicator {
 public:
  /// `number`: n for the nth duplicate, or 0.
  using Start = std::function<Pending(Communicator& inner, Exchange exchange, int number)>;

  ChangedExchanges(Communicator& inner, Start start)
      : ChangedExchanges(inner, nullptr, std::make_shared<Common>(Common{std::move(start), 0}), 0) {
  }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::unique_ptr<Communicator> duplicate() override {
    auto own = inner_.duplicate();
    Communicator& inner = *own;
    const int number = ++common_->duplicates;
    return std::unique_ptr<Communicator>(
        new ChangedExchanges(inner, std::move(own), common_, number));
  }
  Pending start_exchange(Exchange exchange) override {
    return common_->start(inner_, std::move(exchange), number_);
  }
  /// Of this communicator, and of those.
  int duplicates() const { return common_->duplicates; }

 private:
  struct Common {
    Start start;
    int duplicates;
  };
  ChangedExchanges(Communicator& inner, std::unique_ptr<Communicator> owned,
                   std::shared_ptr<Common> common, int number)
      : Communicator(inner.engine()),
        owned_(std::move(owned)),
        inner_(inner),
        common_(std::move(common)),
        number_(number) {}

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<Common> common_;
  int number_;
};

}  // namespace dlrm
