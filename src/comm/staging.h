#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "event_pool.h"

namespace dlrm {

/// How blocks of an exchange, which may overlap and leave gaps, stand in staged memory: what they
/// cover, each byte once.
struct StagedBlocks {
  struct Run {
    int64_t from = 0;  ///< offset in the caller's buffer
    int64_t bytes = 0;
    int64_t at = 0;  ///< offset in staged memory
  };

  StagedBlocks() = default;
  StagedBlocks(View<const int64_t> bytes, View<const int64_t> offsets, int own) {
    lay_out(bytes, offsets, own);
  }
  /// Rank `own`'s block is left out.
  void lay_out(View<const int64_t> bytes, View<const int64_t> offsets, int own);

  std::vector<Run> runs;
  std::vector<int64_t> bytes, offsets;  ///< of each rank's block in staged memory
  int64_t total = 0;

 private:
  std::vector<size_t> order_;
};

/// An exchange's, both ways.
struct StagedLayout {
  StagedBlocks sends, receives;
};

/// Host memory beside a device, and two streams that copy through it: what StagedComm and its
/// duplicates share. Used under the engine's mutex.
class Staging {
 public:
  /// Memory of one call.
  struct Slot {
    explicit Slot(Device& device)
        : send(device, 0, "staged sends"),
          receive(device, 0, "staged receives"),
          given(device.make_event()),
          ready(device.make_event()),
          landed(device.make_event()) {}
    size_t capacity() const { return send.size() + receive.size(); }

    HostArray<std::byte> send, receive;
    std::unique_ptr<Event> given;   ///< the caller's stream got to where the call starts
    std::unique_ptr<Event> ready;   ///< what is to be sent is in `send`
    std::unique_ptr<Event> landed;  ///< what was received is in device memory
    bool used = false;              ///< `landed` is of an earlier call
  };

  explicit Staging(Device& device);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::unique_ptr<Slot> take(int64_t send_bytes, int64_t receive_bytes);
  void give_back(std::unique_ptr<Slot> slot);
  std::unique_ptr<StagedLayout> take_layout();
  void give_back(std::unique_ptr<StagedLayout> layout);

  Device& device() { return device_; }
  Stream& out() { return *out_; }  ///< from the device
  Stream& in() { return *in_; }    ///< to the device
  const std::shared_ptr<EventPool>& events() const { return events_; }

 private:
  Device& device_;
  std::unique_ptr<Stream> out_, in_;
  std::shared_ptr<EventPool> events_;
  std::vector<std::unique_ptr<Slot>> free_;
  std::vector<std::unique_ptr<StagedLayout>> free_layouts_;
};

}  // namespace dlrm
