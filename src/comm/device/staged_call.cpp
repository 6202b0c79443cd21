#include "staged_call.h"

#include <mutex>
#include <utility>

#include "comm/collectives/element.h"

namespace dlrm::comm {

StagedCall::StagedCall(StagedContext context, Stream* stream)
    : Call(context.host.engine()), context_(context), stream_(stream) {}

StagedCall::~StagedCall() {
  const std::lock_guard lock(engine().mutex());
  engine().remove(*this);
  std::erase(context_.queue, this);
  host_call_ = Pending();
  if (slot_) context_.staging.release(std::move(slot_));
}

void StagedCall::start() {
  const std::lock_guard lock(engine().mutex());
  Stream& out = context_.staging.out();
  slot_ = context_.staging.acquire(send_bytes(), receive_bytes());
  if (stream_) {
    stream_->record(*slot_->submitted);
    out.wait(*slot_->submitted);
  }
  if (slot_->reused) out.wait(*slot_->delivered);
  copy_out(out);
  out.record(*slot_->send_ready);
  context_.queue.push_back(this);
  engine().add(*this);
}

bool StagedCall::enqueue_wait(Stream& stream) {
  for (int64_t polls = 0; !copy_in_enqueued(); ++polls) {
    poll();
    back_off(polls);
  }
  stream.wait(*slot_->delivered);
  return true;
}

void StagedCall::copy(void* to, const void* from, int64_t bytes, Stream& stream) const {
  context_.staging.device().copy(to, from, static_cast<size_t>(bytes), stream);
}

bool StagedCall::step() {
  if (!on_host_ && !try_start_on_host()) return false;
  if (!copy_in_enqueued_) {
    if (!host_call_.poll()) return false;
    Stream& in = context_.staging.in();
    copy_in(in);
    in.record(*slot_->delivered);
    slot_->reused = true;
    copy_in_enqueued_ = true;
  }
  return slot_->delivered->reached();
}

bool StagedCall::try_start_on_host() {
  if (context_.queue.front() != this || !slot_->send_ready->reached()) return false;
  context_.queue.erase(context_.queue.begin());
  on_host_ = true;
  host_call_ = start_on_host();
  return true;
}

bool StagedCall::copy_in_enqueued() {
  const std::lock_guard lock(engine().mutex());
  return copy_in_enqueued_;
}

StagedExchange::StagedExchange(StagedContext context, Exchange exchange)
    : StagedCall(context, exchange.stream), exchange_(std::move(exchange)) {
  const std::lock_guard lock(engine().mutex());
  layout_ = staging().acquire_layout();
  const ExchangeLayout& layout = exchange_.layout;
  layout_->sends.lay_out(layout.send_bytes, layout.send_offsets, host().rank());
  layout_->receives.lay_out(layout.receive_bytes, layout.receive_offsets, host().rank());
}

StagedExchange::~StagedExchange() {
  const std::lock_guard lock(engine().mutex());
  staging().release(std::move(layout_));
  engine().call_pool()->release(std::move(exchange_.layout));
}

void StagedExchange::copy_out(Stream& stream) {
  for (const StagedBlocks::Run& run : layout_->sends.runs) {
    copy(slot().send.data() + run.staged_offset,
         static_cast<const char*>(exchange_.send) + run.offset, run.bytes, stream);
  }
  const auto own = static_cast<size_t>(host().rank());
  const ExchangeLayout& layout = exchange_.layout;
  copy(static_cast<char*>(exchange_.receive) + layout.receive_offsets[own],
       static_cast<const char*>(exchange_.send) + layout.send_offsets[own], layout.send_bytes[own],
       stream);
}

Pending StagedExchange::start_on_host() {
  Exchange exchange{
      .name = exchange_.name, .send = slot().send.data(), .receive = slot().receive.data()};
  const StagedBlocks &sends = layout_->sends, &receives = layout_->receives;
  ExchangeLayout& layout = exchange.layout;
  layout = engine().call_pool()->acquire_layout(sends.bytes.size());
  layout.send_bytes.assign(sends.bytes.begin(), sends.bytes.end());
  layout.send_offsets.assign(sends.offsets.begin(), sends.offsets.end());
  layout.receive_bytes.assign(receives.bytes.begin(), receives.bytes.end());
  layout.receive_offsets.assign(receives.offsets.begin(), receives.offsets.end());
  exchange.is_barrier = exchange_.is_barrier;
  exchange.is_gather = exchange_.is_gather;
  exchange.sequence = host().reserve(exchange.name, sends.total, exchange.is_gather ? 2 : 1);
  return host().start_exchange(std::move(exchange));
}

void StagedExchange::copy_in(Stream& stream) {
  for (const StagedBlocks::Run& run : layout_->receives.runs) {
    copy(static_cast<char*>(exchange_.receive) + run.offset,
         slot().receive.data() + run.staged_offset, run.bytes, stream);
  }
}

int64_t StagedReduction::send_bytes() const {
  return reduction_.count * width_of(reduction_.element);
}

void StagedReduction::copy_out(Stream& stream) {
  copy(slot().send.data(), reduction_.data, send_bytes(), stream);
}

Pending StagedReduction::start_on_host() {
  return with_type_of(reduction_.element, [&]<class T>(T) {
    const View<T> data(reinterpret_cast<T*>(slot().send.data()),
                       static_cast<size_t>(reduction_.count));
    return host().start_allreduce<T>(data, reduction_.wire);
  });
}

void StagedReduction::copy_in(Stream& stream) {
  copy(reduction_.out, slot().send.data(), send_bytes(), stream);
}

}  // namespace dlrm::comm
