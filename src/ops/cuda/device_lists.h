#pragma once
#include <cstdint>
#include <list>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/device/device.h"

namespace dlrm {

/// Lists of descriptors in device memory, cached by content. In a steady state the lists of a step
/// equal those of an earlier one, and nothing is uploaded. For the operations of one stream.
/// Elements must have no undefined bytes, otherwise their list is never found again.
///
/// A list is evicted after many other lists have been used. Lists used during a capture are kept as
/// long as this object.
class DeviceLists {
 public:
  DeviceLists(Device& device, Stream& stream);
  DeviceLists(const DeviceLists&) = delete;
  DeviceLists& operator=(const DeviceLists&) = delete;

  /// Returns `list` in device memory, for work queued on the stream after this call. Null if it is
  /// empty.
  template <class T>
  const T* of(View<const T> list) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<const T*>(place(list.data(), list.size_bytes()));
  }
  template <class T>
  const T* of(const std::vector<T>& list) {
    return of(View<const T>(list));
  }

 private:
  struct Entry {
    uint64_t hash = 0;
    size_t bytes = 0;
    Buffer memory;
    Buffer content;  ///< pinned memory, compared and uploaded
    std::unique_ptr<Event> uploaded;
    bool stays = false;
  };
  using Entries = std::list<Entry>;  ///< the most recently used first

  const void* place(const void* list, size_t bytes);
  Entries::iterator found(uint64_t hash, const void* list, size_t bytes);
  Entries::iterator with_room(size_t bytes);
  Entries::iterator new_entry(size_t bytes);
  void upload_at_once(Entry& entry);
  void forget(Entries::iterator entry);

  Device& device_;
  Stream& stream_;
  std::unique_ptr<Stream> upload_stream_;  ///< uploads during a capture
  Entries entries_;
  std::unordered_multimap<uint64_t, Entries::iterator> by_hash_;
};

}  // namespace dlrm
