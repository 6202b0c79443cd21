#include "limited_calls.h"

#include <future>
#include <system_error>
#include <utility>

#include "dlrm/core/background_thread.h"

namespace dlrm::comm {

void run_at_most(std::chrono::milliseconds limit, const std::vector<std::function<void()>>& calls) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::vector<std::future<void>> returned;
  for (const auto& call : calls) {
    std::packaged_task<void()> task(call);
    returned.push_back(task.get_future());
    try {
      background_thread(std::move(task)).detach();
    } catch (const std::system_error&) {  // no thread is left
      returned.pop_back();
      call();
    }
  }
  for (const std::future<void>& one : returned) one.wait_until(until);
}

}  // namespace dlrm::comm
