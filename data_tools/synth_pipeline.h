#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "thread_option.h"

namespace dlrm {

/// Calls make(i, item) on `threads` threads for every i in [0, count), and take(item) for each
/// result in order of i, one at a time. Each thread reuses one Item. Rethrows the first error.
template <class Item, class Make, class Take>
void run_in_order(int64_t count, int threads, const Make& make, const Take& take) {
  std::mutex mutex;
  std::condition_variable turned;
  int64_t next = 0, turn = 0;
  std::exception_ptr error;
  const auto work = [&] {
    Item item;
    std::unique_lock lock(mutex);
    while (next < count && !error) {
      const int64_t mine = next++;
      try {
        lock.unlock();
        make(mine, item);
        lock.lock();
        turned.wait(lock, [&] { return turn == mine || error; });
        if (error) return;
        lock.unlock();
        take(item);
        lock.lock();
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!error) error = std::current_exception();
      }
      ++turn;
      turned.notify_all();
    }
  };
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    const std::lock_guard lock(mutex);
    if (!error) error = std::make_exception_ptr(too_many_threads(threads));
    turned.notify_all();
  }
  work();
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace dlrm
