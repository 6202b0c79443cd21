#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/device/upload.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// Lists of a batch that the host fills and operations read, and the int64 lists that a device
/// makes of them: ids and offsets travel to it as int32. On a CPU they are int64 from the start,
/// and nothing is unpacked.
class BatchLists {
 public:
  BatchLists(Device& device, const char* what)
      : upload_(device, what), unpacked_(device, 0, what), packs_(!device.host_visible_memory()) {}

  bool packs() const { return packs_; }
  /// Makes room for lists of `bytes` and for `unpacked` integers made of them.
  void begin(size_t bytes, size_t unpacked = 0) {
    upload_.begin(bytes);
    packed_.clear();
    make_room(unpacked);
  }
  /// The latter alone.
  void make_room(size_t unpacked) {
    used_ = 0;
    if (unpacked <= unpacked_.size()) return;
    upload_.wait_until_released();
    unpacked_.reserve(unpacked);
  }
  template <class T>
  T* take(size_t count) {
    return upload_.take<T>(count);
  }
  template <class T>
  T* on_device(T* list) const {
    return upload_.on_device(list);
  }

  /// Room on the device for `count` integers.
  int64_t* room(size_t count) {
    DLRM_CHECK(used_ + count <= unpacked_.size(), "{} integers of {}", used_ + count,
               unpacked_.size());
    int64_t* place = unpacked_.data() + used_;
    used_ += count;
    return place;
  }
  /// Room for a list of the host's, to be unpacked there.
  int64_t* unpacked(const int32_t* list, size_t count) { return add(on_device(list), count, 0); }
  /// Room for 0, step, 2 · step ...
  int64_t* multiples(int64_t step, size_t count) { return add(nullptr, count, step); }
  const std::vector<PackedList>& packed() const { return packed_; }

  void send(Stream& copies) { upload_.send(copies); }
  void arrive(Stream& stream) { upload_.arrive(stream); }
  void release(Stream& stream) { upload_.release(stream); }

 private:
  int64_t* add(const int32_t* from, size_t count, int64_t step) {
    int64_t* to = room(count);
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

  Upload upload_;
  Array<int64_t> unpacked_;
  std::vector<PackedList> packed_;
  size_t used_ = 0;
  const bool packs_;
};

}  // namespace dlrm
