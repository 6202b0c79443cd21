#include "nccl_session.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "dlrm/device/cuda/runtime.h"

#include "limited_calls.h"

namespace dlrm::comm {
namespace {

// Calls return at once and are polled. A rank that waits for a peer makes progress on its host
// calls and learns about failures. This costs a thread that NCCL starts for each group. With 1,
// only the watchdog's thread would learn about failures meanwhile.
constexpr int kBlocking = 0;
constexpr auto kPeerErrorTimeout = std::chrono::seconds(2);
constexpr auto kPollInterval = std::chrono::milliseconds(1);
constexpr int kRemoteErrorsIgnored = 3;  // reports of the watchdog

/// NCCL must not register the buffers of graphs. That requires memory allocated for it, at equal
/// offsets on all ranks; memory of a pool is neither.
void disable_graph_registration() { ::setenv("NCCL_GRAPH_REGISTER", "0", 0); }

/// Kernels of two communicators may wait for each other on two GPUs that launch them in different
/// orders. From 2.26 on NCCL launches them in the order of the host's calls, if it is told to. The
/// user's setting has precedence.
bool keeps_launch_order(int version) {
  constexpr int kFirst = 22600;
  constexpr const char* kName = "NCCL_LAUNCH_ORDER_IMPLICIT";
  ::setenv(kName, "1", 0);
  return version >= kFirst && std::string(std::getenv(kName)) == "1";
}

}  // namespace

NcclSession::NcclSession(std::unique_ptr<Communicator> host, Device& device,
                         std::chrono::milliseconds end_limit)
    : nccl_(nccl_library()),
      host_(std::move(host)),
      nodes_(host_->nodes(), host_->rank()),
      device_(device),
      gpu_(cuda::facts(device).index),
      events_(std::make_shared<EventPool>(device)),
      end_limit_(end_limit) {
  disable_graph_registration();
  DLRM_CUDA_CHECK(cudaSetDevice(gpu_));
  const size_t lanes = common_lanes();
  while (lanes_.size() < lanes) lanes_.push_back(std::make_unique<NcclLane>(device));
  Monitor& monitor = host_->engine()->monitor();
  monitor.add(static_cast<FailureSource&>(*this));
  try {
    start();
  } catch (...) {
    monitor.remove(static_cast<FailureSource&>(*this));
    abort();
    throw;
  }
}

/// The number of lanes that every rank can have.
size_t NcclSession::common_lanes() {
  const size_t mine = keeps_launch_order(nccl_.version) ? 2 : 1;
  const std::vector<size_t> all = host_->allgather(mine);
  return *std::min_element(all.begin(), all.end());
}

void NcclSession::start() {
  for (const auto& lane : lanes_) {
    ncclUniqueId id{};
    if (host_->rank() == 0) check(nccl_.get_unique_id(&id));
    throw_if_failed();
    host_->broadcast(&id, sizeof id, 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = kBlocking;
    {
      const std::lock_guard lock(mutex_);
      check(nccl_.comm_init_rank_config(&lane->comm, host_->size(), id, host_->rank(), &config));
    }
    poll_until_ready();
  }
}

NcclSession::~NcclSession() {
  host_->engine()->monitor().remove(static_cast<FailureSource&>(*this));
  if (ended() || failure_.occurred() || std::uncaught_exceptions() > exceptions_) {
    abort();
  } else {
    finalize();
  }
}

std::shared_ptr<void> NcclSession::before_end(std::function<void()> drop_graphs) {
  auto kept = std::make_shared<std::function<void()>>(std::move(drop_graphs));
  before_end_.push_back(kept);
  return kept;
}

void NcclSession::drop_graphs() noexcept {
  for (const auto& drop : std::exchange(before_end_, {})) {
    if (const auto kept = drop.lock()) (*kept)();
  }
}

void NcclSession::finalize() noexcept {
  drop_graphs();
  const auto until = std::chrono::steady_clock::now() + end_limit_;
  try {
    {
      const std::lock_guard lock(mutex_);
      name_ = "end";
      for (const auto& lane : lanes_) check(nccl_.comm_finalize(lane->comm));
    }
    for (int64_t polls = 0; !poll_once(polls); ++polls) {
      if (std::chrono::steady_clock::now() > until) return abort();
    }
    end_all(nccl_.comm_destroy);
  } catch (...) {
    abort();  // another rank is gone; this rank's results are complete
  }
}

void NcclSession::abort() noexcept {
  drop_graphs();
  end_all(nccl_.comm_abort);
}

/// At the same time: the kernels of one lane may wait for those of the other.
void NcclSession::end_all(ncclResult_t (*end)(ncclComm_t)) {
  const std::lock_guard lock(mutex_);
  std::vector<std::function<void()>> calls;
  for (const auto& lane : lanes_) {
    if (!lane->comm) continue;
    calls.emplace_back([end, gpu = gpu_, comm = std::exchange(lane->comm, nullptr)] {
      cudaSetDevice(gpu);
      end(comm);
    });
  }
  run_at_most(end_limit_, calls);
}

void NcclSession::enter(const char* name) {
  DLRM_CHECK(std::this_thread::get_id() == thread_, "{}: NCCL is called by one thread", name);
  throw_if_failed();
  if (ended()) check_host();
  name_ = name;
  DLRM_CUDA_CHECK(cudaSetDevice(gpu_));
}

void NcclSession::wait_for(Stream* other, NcclLane& lane) {
  if (!other) return;
  std::unique_ptr<Event> event = events_->acquire();
  other->record(*event);
  lane.stream->wait(*event);
  events_->release(std::move(event));
}

void NcclSession::check(ncclResult_t result) noexcept {
  if (result == ncclSuccess || result == ncclInProgress) return;
  failure_.record(describe(result), result == ncclRemoteError);
}

std::string NcclSession::describe(ncclResult_t result) const {
  const char* details = nccl_.get_last_error(nullptr);
  const bool any = details && details[0];
  return fmt::format("NCCL failed on rank {} in {}: {}{}{}", host_->rank(), name_,
                     nccl_.get_error_string(result), any ? ": " : "", any ? details : "");
}

/// Aborts NCCL's kernels before it throws, so that streams which wait for them continue.
void NcclSession::throw_if_failed() {
  if (!failure_.occurred()) return;
  const bool aborted = ended();
  abort();
  if (failure_.is_remote()) {
    if (!aborted) wait_for_peer_error();
    host_->check_alive();  // the error of the rank that failed has precedence
  }
  throw run_error("{}", failure_.text());
}

/// Gives the rank that failed time to end this rank too, with its own error.
void NcclSession::wait_for_peer_error() {
  const auto until = std::chrono::steady_clock::now() + kPeerErrorTimeout;
  while (std::chrono::steady_clock::now() < until) {
    host_->engine()->advance();
    host_->check_alive();
    std::this_thread::sleep_for(kPollInterval);
  }
}

ncclResult_t NcclSession::poll_state() {
  throw_if_failed();
  // In progress too if aborted because another rank failed, which the host reports.
  ncclResult_t all = lanes_.front()->comm ? ncclSuccess : ncclInProgress;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& lane : lanes_) {
      if (!lane->comm) continue;
      ncclResult_t found = ncclInProgress;
      check(nccl_.comm_get_async_error(lane->comm, &found));
      check(found);
      if (found != ncclSuccess) all = found;
    }
  }
  throw_if_failed();
  return all;
}

bool NcclSession::poll_once(int64_t polls) {
  if (poll_state() == ncclSuccess) return true;
  host_->engine()->advance();
  check_host();
  host_->engine()->back_off(polls);
  return false;
}

void NcclSession::poll_until_ready() {
  for (int64_t polls = 0; !poll_once(polls);) ++polls;
}

void NcclSession::check_alive() {
  poll_state();
  check_host();
}

void NcclSession::check_host() {
  try {
    host_->check_alive();
  } catch (...) {
    abort();  // ends kernels that wait for the rank that failed
    throw;
  }
}

std::string NcclSession::failure() {
  if (failure_.occurred()) return failure_.text_for_watchdog();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // A thread inside NCCL learns about the failure itself.
  if (!lock.owns_lock()) return "";
  ncclResult_t found = ncclSuccess;
  for (const auto& lane : lanes_) {
    if (!lane->comm || (found != ncclSuccess && found != ncclInProgress)) continue;
    const ncclResult_t asked = nccl_.comm_get_async_error(lane->comm, &found);
    if (asked != ncclSuccess) found = asked;
  }
  // The rank that failed has the better message, if it can still report it.
  if (found == ncclRemoteError && ++remote_errors_seen_ <= kRemoteErrorsIgnored) return "";
  return found == ncclSuccess || found == ncclInProgress ? "" : describe(found);
}

}  // namespace dlrm::comm
