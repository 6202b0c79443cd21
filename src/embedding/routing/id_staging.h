#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/device/staging_buffer.h"
#include "dlrm/ops/id_lists.h"

namespace dlrm {

/// A batch's staging buffer, and the int64 arrays that a device unpacks from it. Ids and offsets
/// are copied to a device as int32. If the host sees the device's memory, they are written as int64
/// and nothing is unpacked.
class IdStaging {
 public:
  IdStaging(Device& device, const char* what)
      : staging_(device, what), unpacked_(device, 0, what), packs_(!device.host_visible_memory()) {}

  bool packs() const { return packs_; }
  /// Empties both. Reserves `bytes` of staging memory, and memory for `integers` unpacked int64.
  void begin(size_t bytes, size_t integers = 0) {
    staging_.begin(bytes);
    packed_.clear();
    reserve_integers(integers);
  }
  /// Takes an array that was filled before, see StagingBuffer.
  void adopt(HostArray<char>& filled, size_t bytes) {
    staging_.adopt(filled, bytes);
    packed_.clear();
  }
  void reserve_integers(size_t integers) {
    used_ = 0;
    unpacked_.reserve(integers);
  }
  /// Returns the next staged array, on the host.
  template <class T>
  T* take(size_t count) {
    return staging_.take<T>(count);
  }
  template <class T>
  T* on_device(T* on_host) const {
    return staging_.on_device(on_host);
  }

  /// Returns the next `count` integers on the device. The caller queues operations that write them.
  int64_t* take_integers(size_t count) {
    DLRM_CHECK(used_ + count <= unpacked_.size(), "{} integers of {}", used_ + count,
               unpacked_.size());
    int64_t* integers = unpacked_.data() + used_;
    used_ += count;
    return integers;
  }
  /// Returns the integers that a staged array is unpacked to.
  int64_t* unpacked(const int32_t* array, size_t count) { return add(on_device(array), count, 0); }
  /// Returns the integers 0, step, 2 · step, ..., which the unpacking writes.
  int64_t* multiples(int64_t step, size_t count) { return add(nullptr, count, step); }
  /// The arguments of Ops::unpack.
  const std::vector<PackedList>& packed() const { return packed_; }

  void send(Stream& copies) { staging_.send(copies); }
  void await(Stream& stream) { staging_.await(stream); }
  void release(Stream& stream) { staging_.release(stream); }

 private:
  int64_t* add(const int32_t* from, size_t count, int64_t step) {
    int64_t* to = take_integers(count);
    const auto n = static_cast<int64_t>(count);
    const bool follows = from && !packed_.empty() && packed_.back().from &&
                         packed_.back().from + packed_.back().count == from &&
                         packed_.back().to + packed_.back().count == to;
    if (follows) {
      packed_.back().count += n;
    } else if (count > 0) {
      packed_.push_back({from, to, n, step});
    }
    return to;
  }

  StagingBuffer staging_;
  Array<int64_t> unpacked_;
  std::vector<PackedList> packed_;
  size_t used_ = 0;
  const bool packs_;
};

}  // namespace dlrm
