#pragma once
#include <memory>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "comm/calls/call.h"
#include "staging.h"

namespace dlrm::comm {

class StagedCall;

/// The objects that the calls of one staged communicator share.
struct StagedContext {
  Communicator& host;
  Staging& staging;
  /// Calls whose host part has not started. The host parts start in this order. It is the same on
  /// all ranks, even if their data is ready in another order.
  std::vector<const StagedCall*>& queue;
};

inline const std::shared_ptr<CallPool>& call_pool_of(const StagedContext& context) {
  return context.host.engine()->call_pool();
}

/// A call on device memory in three parts: copy to host memory, a call of the host communicator,
/// copy back.
class StagedCall : public Call {
 public:
  /// @param stream  the call starts after its work; may be null
  StagedCall(StagedContext context, Stream* stream);
  ~StagedCall() override;
  void start();
  bool enqueue_wait(Stream& stream) override;

 protected:
  virtual int64_t send_bytes() const = 0;
  virtual int64_t receive_bytes() const = 0;
  virtual void copy_out(Stream& stream) = 0;
  virtual Pending start_on_host() = 0;
  virtual void copy_in(Stream& stream) = 0;

  void copy(void* to, const void* from, int64_t bytes, Stream& stream) const;
  Communicator& host() const { return context_.host; }
  const Staging::Slot& slot() const { return *slot_; }
  Staging& staging() const { return context_.staging; }

 private:
  bool step() override;
  bool try_start_on_host();
  bool copy_in_enqueued();

  const StagedContext context_;
  Stream* const stream_;
  std::unique_ptr<Staging::Slot> slot_;
  Pending host_call_;
  bool on_host_ = false;
  bool copy_in_enqueued_ = false;
};

class StagedExchange final : public StagedCall {
 public:
  StagedExchange(StagedContext context, Exchange exchange);
  ~StagedExchange() override;

 private:
  int64_t send_bytes() const override { return layout_->sends.total; }
  int64_t receive_bytes() const override { return layout_->receives.total; }
  void copy_out(Stream& stream) override;
  Pending start_on_host() override;
  void copy_in(Stream& stream) override;

  Exchange exchange_;
  std::unique_ptr<StagedLayout> layout_;
};

class StagedReduction final : public StagedCall {
 public:
  StagedReduction(StagedContext context, const Reduction& reduction)
      : StagedCall(context, reduction.stream), reduction_(reduction) {}

 private:
  int64_t send_bytes() const override;
  int64_t receive_bytes() const override { return 0; }
  void copy_out(Stream& stream) override;
  Pending start_on_host() override;
  void copy_in(Stream& stream) override;

  const Reduction reduction_;
};

}  // namespace dlrm::comm
