#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

#include "event_pool.h"

namespace dlrm::comm {

/// The blocks of an exchange in host memory. In the caller's buffer they may overlap and leave
/// gaps; here each byte that they cover is stored once.
struct StagedBlocks {
  /// A contiguous range of bytes.
  struct Run {
    int64_t offset = 0;  ///< in the caller's buffer
    int64_t bytes = 0;
    int64_t staged_offset = 0;  ///< in host memory
  };

  /// @param bytes, offsets  [ranks] in the caller's buffer; rank `own`'s block is left out
  void lay_out(View<const int64_t> bytes, View<const int64_t> offsets, int own);

  std::vector<Run> runs;
  std::vector<int64_t> bytes, offsets;  ///< [ranks] in host memory
  int64_t total = 0;                    ///< bytes of all runs

 private:
  std::vector<size_t> order_;
};

struct StagedLayout {
  StagedBlocks sends, receives;
};

/// The host memory and copy streams that a staged communicator and its duplicates share. Use under
/// the engine's mutex.
class Staging {
 public:
  /// Host memory and events of one call.
  struct Slot {
    explicit Slot(Device& device)
        : send(device, 0, "staged sends"),
          receive(device, 0, "staged receives"),
          submitted(device.make_event()),
          send_ready(device.make_event()),
          delivered(device.make_event()) {}
    size_t capacity() const { return send.size() + receive.size(); }

    HostArray<std::byte> send, receive;
    std::unique_ptr<Event> submitted;   ///< the caller's stream reached the start of the call
    std::unique_ptr<Event> send_ready;  ///< `send` is filled
    std::unique_ptr<Event> delivered;   ///< the result is in device memory
    bool reused = false;                ///< `delivered` belongs to an earlier call
  };

  explicit Staging(Device& device);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::unique_ptr<Slot> acquire(int64_t send_bytes, int64_t receive_bytes);
  void release(std::unique_ptr<Slot> slot);
  std::unique_ptr<StagedLayout> acquire_layout();
  void release(std::unique_ptr<StagedLayout> layout);

  Device& device() { return device_; }
  Stream& out() { return *out_; }  ///< device to host
  Stream& in() { return *in_; }    ///< host to device
  const std::shared_ptr<EventPool>& events() const { return events_; }

 private:
  Device& device_;
  std::unique_ptr<Stream> out_, in_;
  std::shared_ptr<EventPool> events_;
  std::vector<std::unique_ptr<Slot>> free_;
  std::vector<std::unique_ptr<StagedLayout>> free_layouts_;
};

}  // namespace dlrm::comm
