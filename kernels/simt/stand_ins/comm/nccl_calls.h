#pragma once
#include <cstddef>
#include <string>
#include <thread>

namespace dlrm {

/// Notes a call for FakeNccl::take_calls(). `rank` is the thread whose communicator is called;
/// another thread may call for it.
void note_nccl_call(const std::string& call, std::thread::id rank = std::this_thread::get_id());

/// Adds to the bytes that this thread has sent to rank `peer`.
void note_nccl_bytes(int peer, size_t bytes);

}  // namespace dlrm
