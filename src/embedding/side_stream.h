#pragma once
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// A second stream with operations of its own, if the device runs asynchronously. Otherwise its
/// stream and operations are the main ones, and fork() and join() do nothing.
class SideStream {
 public:
  SideStream(Context& context, Ops& main_ops) : context_(context), main_ops_(main_ops) {
    if (!context.device.asynchronous()) return;
    stream_ = context.device.make_stream();
    ops_ = main_ops.make_for_stream(*stream_);
    forked_ = context.device.make_event();
    joined_ = context.device.make_event();
  }
  ~SideStream() {
    if (stream_) settle(*stream_);
  }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// True if the side stream differs from the main stream.
  bool available() const { return ops_ != nullptr; }
  Ops& ops() const { return ops_ ? *ops_ : main_ops_; }
  Stream& stream() const { return stream_ ? *stream_ : context_.stream; }

  /// The side stream waits for the main stream.
  void fork() {
    if (!available()) return;
    context_.stream.record(*forked_);
    stream_->wait(*forked_);
    is_forked_ = true;
  }
  /// Like fork(), but the side stream does not wait for the main stream.
  void stay_forked() { is_forked_ = available(); }
  /// The main stream waits for the side stream. Does nothing without a fork().
  void join() {
    if (!is_forked_) return;
    stream_->record(*joined_);
    context_.stream.wait(*joined_);
    is_forked_ = false;
  }

 private:
  Context& context_;
  Ops& main_ops_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Event> forked_, joined_;
  bool is_forked_ = false;
};

}  // namespace dlrm
