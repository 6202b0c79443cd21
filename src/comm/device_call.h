#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "call_memory.h"
#include "event_pool.h"
#include "progress.h"

namespace dlrm {

/// A call that a device goes on with by itself: done once an event is reached. Where it is part of
/// a captured graph, it can be waited for by a stream alone.
class DeviceCall : public Pending::State, public InCallMemory {
 public:
  /// The call is what `stream` holds now.
  DeviceCall(std::shared_ptr<EventPool> events, std::shared_ptr<ProgressEngine> engine,
             Stream& stream)
      : events_(std::move(events)),
        engine_(std::move(engine)),
        captured_(stream.capturing()),
        end_(events_->take()) {
    stream.record(*end_);
  }
  ~DeviceCall() override { events_->give_back(std::move(end_)); }
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  bool poll() override {
    engine_->advance();
    if (captured_ || !end_->reached()) return false;
    engine_->count_progress();
    return true;
  }
  void relax(int64_t polls) override {
    DLRM_CHECK(!captured_, "the host waits for a call that is part of a graph");
    engine_->relax(polls);
  }
  bool abandoned() const override { return engine_->abandoned(); }
  void abandon() override { engine_->abandon(); }
  bool order(Stream& stream) override {
    stream.wait(*end_);
    return true;
  }

 private:
  std::shared_ptr<EventPool> events_;
  std::shared_ptr<ProgressEngine> engine_;
  const bool captured_;
  std::unique_ptr<Event> end_;
};

}  // namespace dlrm
