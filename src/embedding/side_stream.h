#pragma once
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// Operations beside the context's stream, where the device has room for two things at once.
class SideStream {
 public:
  SideStream(Context& context, Ops& ops) : context_(context) {
    if (!context.device.asynchronous()) return;
    stream_ = context.device.make_stream();
    ops_ = ops.make_for_stream(*stream_);
    forked_ = context.device.make_event();
    joined_ = context.device.make_event();
  }
  ~SideStream() {
    if (stream_) settle(*stream_);
  }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Whether there are any; the rest is of no use else.
  bool available() const { return ops_ != nullptr; }
  Ops& ops() const { return *ops_; }
  Stream& stream() const { return *stream_; }

  /// What comes next beside starts after what the context's stream holds now.
  void fork() {
    context_.stream.record(*forked_);
    stream_->wait(*forked_);
    apart_ = true;
  }
  /// ... and what comes next on that stream after all that is beside. Nothing without a fork.
  void join() {
    if (!apart_) return;
    stream_->record(*joined_);
    context_.stream.wait(*joined_);
    apart_ = false;
  }

 private:
  Context& context_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Event> forked_, joined_;
  bool apart_ = false;
};

}  // namespace dlrm
