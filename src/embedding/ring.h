#pragma once
#include <deque>
#include <utility>

namespace dlrm {

/// A queue with a fixed number of places. An entry that leaves the queue keeps its contents, so
/// that its memory can be reused.
template <class T>
class Ring {
 public:
  template <class... Args>
  void add_place(Args&&... args) {
    places_.emplace_back(std::forward<Args>(args)...);
  }
  int size() const { return size_; }
  bool full() const { return size_ == static_cast<int>(places_.size()); }
  /// Entry `i`, 0 for the oldest; entry size() is the place that push() adds, unless full().
  T& operator[](int i) { return places_[static_cast<size_t>(first_ + i) % places_.size()]; }
  void push() { ++size_; }
  void pop() {
    first_ = (first_ + 1) % static_cast<int>(places_.size());
    --size_;
  }

 private:
  std::deque<T> places_;
  int first_ = 0;
  int size_ = 0;
};

}  // namespace dlrm
