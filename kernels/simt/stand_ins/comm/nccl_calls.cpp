#include "nccl_calls.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fake_nccl.h"

namespace dlrm {
namespace {

struct Calls {
  std::mutex mutex;
  std::map<std::thread::id, std::vector<std::string>> of_rank;
  std::map<std::thread::id, std::map<int, size_t>> sent;  // bytes by peer
};

Calls& calls() {
  static auto* all = new Calls;  // never destroyed: a call may outlast main()
  return *all;
}

}  // namespace

void note_nccl_call(const std::string& call, std::thread::id rank) {
  const std::lock_guard lock(calls().mutex);
  calls().of_rank[rank].push_back(call);
}

std::vector<std::string> FakeNccl::take_calls() {
  const std::lock_guard lock(calls().mutex);
  return std::exchange(calls().of_rank[std::this_thread::get_id()], {});
}

void note_nccl_bytes(int peer, size_t bytes) {
  const std::lock_guard lock(calls().mutex);
  calls().sent[std::this_thread::get_id()][peer] += bytes;
}

std::map<int, size_t> FakeNccl::take_sent() {
  const std::lock_guard lock(calls().mutex);
  return std::exchange(calls().sent[std::this_thread::get_id()], {});
}

}  // namespace dlrm
