#include "staged_comm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dlrm/core/partition.h"

#include "device_call.h"
#include "element.h"
#include "progress.h"
#include "staging.h"

namespace dlrm {
namespace {

class StagedCall;

/// The calls of one StagedComm whose host part has not started. It starts in the order of the
/// calls, which is the same on every rank, whatever the order in which their data gets ready.
using Turns = std::vector<const StagedCall*>;

/// What a StagedComm's calls work with.
struct Route {
  Communicator& host;
  Staging& staging;
  Turns& turns;
};

std::shared_ptr<CallMemory> memory_of(const Route& route) { return route.host.engine()->memory(); }

/// Out of the device, through the host communicator, into the device.
class StagedCall : public Call {
 public:
  StagedCall(Route route, Stream* stream)
      : Call(route.host.engine()), route_(route), stream_(stream) {}

  ~StagedCall() override {
    const std::lock_guard lock(engine().mutex());
    engine().remove(*this);
    std::erase(route_.turns, this);
    host_ = Pending();
    if (slot_) route_.staging.give_back(std::move(slot_));
  }

  void start() {
    const std::lock_guard lock(engine().mutex());
    Stream& out = route_.staging.out();
    slot_ = route_.staging.take(send_bytes(), receive_bytes());
    if (stream_) {
      stream_->record(*slot_->given);
      out.wait(*slot_->given);
    }
    if (slot_->used) out.wait(*slot_->landed);
    copy_out(out);
    out.record(*slot_->ready);
    route_.turns.push_back(this);
    engine().add(*this);
  }

  bool order(Stream& stream) override {
    for (int64_t polls = 0; !queued(); ++polls) {
      poll();
      relax(polls);
    }
    stream.wait(*slot_->landed);
    return true;
  }

 protected:
  virtual int64_t send_bytes() const = 0;
  virtual int64_t receive_bytes() const = 0;
  virtual void copy_out(Stream& stream) = 0;
  virtual Pending start_on_host() = 0;
  virtual void copy_in(Stream& stream) = 0;

  void copy(void* to, const void* from, int64_t bytes, Stream& stream) const {
    if (bytes > 0 && to != from) {
      route_.staging.device().copy(to, from, static_cast<size_t>(bytes), stream);
    }
  }
  Communicator& host() const { return route_.host; }
  const Staging::Slot& slot() const { return *slot_; }
  Staging& staging() const { return route_.staging; }

 private:
  bool step() override {
    if (!on_host_ && !begin_on_host()) return false;
    if (!queued_) {
      if (!host_.poll()) return false;
      Stream& in = route_.staging.in();
      copy_in(in);
      in.record(*slot_->landed);
      slot_->used = true;
      queued_ = true;
    }
    return slot_->landed->reached();
  }

  bool begin_on_host() {
    if (route_.turns.front() != this || !slot_->ready->reached()) return false;
    route_.turns.erase(route_.turns.begin());
    on_host_ = true;
    host_ = start_on_host();
    return true;
  }

  bool queued() {
    const std::lock_guard lock(engine().mutex());
    return queued_;
  }

  const Route route_;
  Stream* const stream_;
  std::unique_ptr<Staging::Slot> slot_;
  Pending host_;
  bool on_host_ = false;
  bool queued_ = false;
};

class StagedExchange final : public StagedCall {
 public:
  StagedExchange(Route route, Exchange exchange)
      : StagedCall(route, exchange.stream), exchange_(std::move(exchange)) {
    const std::lock_guard lock(engine().mutex());
    staged_ = staging().take_layout();
    const ExchangeLayout& layout = exchange_.layout;
    staged_->sends.lay_out(layout.send_bytes, layout.send_offsets, host().rank());
    staged_->receives.lay_out(layout.receive_bytes, layout.receive_offsets, host().rank());
  }

  ~StagedExchange() override {
    const std::lock_guard lock(engine().mutex());
    staging().give_back(std::move(staged_));
    engine().memory()->give_back(std::move(exchange_.layout));
  }

 private:
  int64_t send_bytes() const override { return staged_->sends.total; }
  int64_t receive_bytes() const override { return staged_->receives.total; }

  void copy_out(Stream& stream) override {
    for (const StagedBlocks::Run& run : staged_->sends.runs) {
      copy(slot().send.data() + run.at, static_cast<const char*>(exchange_.send) + run.from,
           run.bytes, stream);
    }
    const auto own = static_cast<size_t>(host().rank());
    const ExchangeLayout& layout = exchange_.layout;
    copy(static_cast<char*>(exchange_.receive) + layout.receive_offsets[own],
         static_cast<const char*>(exchange_.send) + layout.send_offsets[own],
         layout.send_bytes[own], stream);
  }

  Pending start_on_host() override {
    Exchange exchange{
        .name = exchange_.name, .send = slot().send.data(), .receive = slot().receive.data()};
    const StagedBlocks &sends = staged_->sends, &receives = staged_->receives;
    ExchangeLayout& layout = exchange.layout;
    layout = engine().memory()->take_layout(sends.bytes.size());
    layout.send_bytes.assign(sends.bytes.begin(), sends.bytes.end());
    layout.send_offsets.assign(sends.offsets.begin(), sends.offsets.end());
    layout.receive_bytes.assign(receives.bytes.begin(), receives.bytes.end());
    layout.receive_offsets.assign(receives.offsets.begin(), receives.offsets.end());
    exchange.rendezvous = exchange_.rendezvous;
    exchange.sequence = host().reserve(exchange.name, sends.total);
    return host().start_exchange(std::move(exchange));
  }

  void copy_in(Stream& stream) override {
    for (const StagedBlocks::Run& run : staged_->receives.runs) {
      copy(static_cast<char*>(exchange_.receive) + run.from, slot().receive.data() + run.at,
           run.bytes, stream);
    }
  }

  Exchange exchange_;
  std::unique_ptr<StagedLayout> staged_;
};

class StagedReduction final : public StagedCall {
 public:
  StagedReduction(Route route, const Reduction& reduction)
      : StagedCall(route, reduction.stream), reduction_(reduction) {}

 private:
  int64_t send_bytes() const override { return reduction_.count * width_of(reduction_.element); }
  int64_t receive_bytes() const override {
    const int64_t own = part_of(reduction_.count, host().rank(), host().size()).size();
    return reduction_.scatter ? own * width_of(reduction_.element) : 0;
  }

  void copy_out(Stream& stream) override {
    copy(slot().send.data(), reduction_.data, send_bytes(), stream);
  }

  Pending start_on_host() override {
    return with_type_of(reduction_.element, [&]<class T>(T) {
      const View<T> data(reinterpret_cast<T*>(slot().send.data()),
                         static_cast<size_t>(reduction_.count));
      if (!reduction_.scatter) return host().start_allreduce<T>(data, reduction_.wire);
      const View<T> part(reinterpret_cast<T*>(slot().receive.data()),
                         static_cast<size_t>(receive_bytes()) / sizeof(T));
      return host().start_reduce_scatter<T>(data, part);
    });
  }

  void copy_in(Stream& stream) override {
    if (reduction_.scatter) {
      copy(reduction_.out, slot().receive.data(), receive_bytes(), stream);
    } else {
      copy(reduction_.out, slot().send.data(), send_bytes(), stream);
    }
  }

  const Reduction reduction_;
};

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
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<StagedComm>(host_->duplicate(), staging_);
  }

  Pending start_exchange(Exchange exchange) override {
    if (size() > 1) return start_call<StagedExchange>(route(), std::move(exchange));
    const LayoutReturn done(*engine()->memory(), exchange.layout);
    const ExchangeLayout& layout = exchange.layout;
    DLRM_CHECK(layout.send_bytes[0] == layout.receive_bytes[0], "{}: {} bytes sent, {} expected",
               exchange.name, layout.send_bytes[0], layout.receive_bytes[0]);
    return copy_alone(static_cast<char*>(exchange.receive) + layout.receive_offsets[0],
                      static_cast<const char*>(exchange.send) + layout.send_offsets[0],
                      layout.send_bytes[0], exchange.stream);
  }

  Pending start_reduction(Reduction reduction) override {
    if (size() > 1) return start_call<StagedReduction>(route(), reduction);
    return copy_alone(reduction.out, reduction.data, reduction.count * width_of(reduction.element),
                      reduction.stream);
  }

 private:
  Route route() { return {*host_, *staging_, turns_}; }

  /// One rank: nothing leaves the device, and the host waits for nothing.
  Pending copy_alone(void* to, const void* from, int64_t bytes, Stream* after) {
    const std::lock_guard lock(engine()->mutex());
    Stream& stream = staging_->out();
    if (after) {
      std::unique_ptr<Event> given = staging_->events()->take();
      after->record(*given);
      stream.wait(*given);
      staging_->events()->give_back(std::move(given));
    }
    if (bytes > 0 && to != from) {
      staging_->device().copy(to, from, static_cast<size_t>(bytes), stream);
    }
    return Pending(std::unique_ptr<DeviceCall>(
        new (engine()->memory()) DeviceCall(staging_->events(), engine(), stream)));
  }

  const std::unique_ptr<Communicator> host_;
  const std::shared_ptr<Staging> staging_;
  Turns turns_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_comm(Communicator& host, Device& device) {
  return std::make_unique<StagedComm>(host.duplicate(), std::make_shared<Staging>(device));
}

}  // namespace dlrm
