#pragma once
#include <memory>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "comm/calls/call_pool.h"
#include "comm/calls/progress_engine.h"
#include "event_pool.h"

namespace dlrm::comm {

/// A call that a device completes without the host. It is done once an event is reached. Within a
/// captured graph only a stream can wait for it.
class DeviceCall : public Pending::State, public PooledCall {
 public:
  /// The call consists of the work that `stream` holds now.
  DeviceCall(std::shared_ptr<EventPool> events, std::shared_ptr<ProgressEngine> engine,
             Stream& stream)
      : events_(std::move(events)),
        engine_(std::move(engine)),
        captured_(stream.capturing()),
        end_(events_->acquire()) {
    stream.record(*end_);
  }
  ~DeviceCall() override { events_->release(std::move(end_)); }
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  bool poll() override {
    engine_->advance();
    if (captured_ || !end_->reached()) return false;
    engine_->monitor().count_progress();
    return true;
  }
  void back_off(int64_t polls) override {
    DLRM_CHECK(!captured_, "the host waits for a call that is part of a graph");
    engine_->back_off(polls);
  }
  bool abandoned() const override { return engine_->abandoned(); }
  void abandon() override { engine_->abandon(); }
  bool enqueue_wait(Stream& stream) override {
    stream.wait(*end_);
    return true;
  }

 private:
  std::shared_ptr<EventPool> events_;
  std::shared_ptr<ProgressEngine> engine_;
  const bool captured_;
  std::unique_ptr<Event> end_;
};

}  // namespace dlrm::comm
