#include "nccl_session.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <utility>

#include "dlrm/device/cuda/runtime.h"

namespace dlrm {
namespace {

// NCCL's calls return at once and are polled: a rank whose peer is missing still moves its host
// calls on and hears of failures. The price is a thread that NCCL starts for each group; 1 saves
// it, and then only the watchdog's thread hears of anything meanwhile.
constexpr int kBlocking = 0;
constexpr auto kPatience = std::chrono::seconds(2);  // for the word of a rank that failed
constexpr auto kNap = std::chrono::milliseconds(1);
constexpr int kRemoteErrorsPassed = 4;  // of the watchdog's turns
constexpr int kFailuresPassed = 2;      // likewise, while the thread that met one reports it

/// What graphs hold is used where it lies only if it was allocated for that, at the same offsets on
/// every rank; memory of a pool is not.
void register_nothing() { ::setenv("NCCL_GRAPH_REGISTER", "0", 0); }

}  // namespace

NcclSession::NcclSession(std::unique_ptr<Communicator> host, Device& device)
    : nccl_(nccl_library()),
      host_(std::move(host)),
      device_(device),
      gpu_(cuda::facts(device).index),
      stream_(device.make_stream()),
      native_(cuda::native(*stream_)),
      events_(std::make_shared<EventPool>(device)),
      scratch_(device, 0, "nccl scratch") {
  register_nothing();
  ncclUniqueId id{};
  if (host_->rank() == 0) check(nccl_.get_unique_id(&id));
  throw_if_failed();
  host_->broadcast(&id, sizeof id, 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = kBlocking;
  DLRM_CUDA_CHECK(cudaSetDevice(gpu_));
  host_->engine()->add(static_cast<Health&>(*this));
  try {
    {
      const std::lock_guard lock(mutex_);
      check(nccl_.comm_init_rank_config(&comm_, host_->size(), id, host_->rank(), &config));
    }
    settle();
  } catch (...) {
    host_->engine()->remove(static_cast<Health&>(*this));
    abort();
    throw;
  }
}

NcclSession::~NcclSession() {
  host_->engine()->remove(static_cast<Health&>(*this));
  if (failed_ || std::uncaught_exceptions() > exceptions_) {
    abort();
  } else {
    end();
  }
}

void NcclSession::end() noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      name_ = "end";
      check(nccl_.comm_finalize(comm_));
    }
    settle();
    nccl_.comm_destroy(comm_);
    comm_ = nullptr;
  } catch (...) {
    abort();  // a rank that is gone; what was to be computed is
  }
}

void NcclSession::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_) nccl_.comm_abort(comm_);
  comm_ = nullptr;
}

void NcclSession::enter(const char* name) {
  DLRM_CHECK(std::this_thread::get_id() == thread_, "{}: NCCL is called by one thread", name);
  throw_if_failed();
  if (!comm_) check_host();
  name_ = name;
  DLRM_CUDA_CHECK(cudaSetDevice(gpu_));
}

void NcclSession::begin_after(Stream* given) {
  if (!given) return;
  std::unique_ptr<Event> event = events_->take();
  given->record(*event);
  stream_->wait(*event);
  events_->give_back(std::move(event));
}

void NcclSession::check(ncclResult_t result) noexcept {
  if (result != ncclSuccess && result != ncclInProgress) keep_words(result);
}

std::string NcclSession::words_of(ncclResult_t result) const {
  const char* details = nccl_.get_last_error(nullptr);
  const bool any = details && details[0];
  return fmt::format("NCCL failed on rank {} in {}: {}{}{}", host_->rank(), name_,
                     nccl_.get_error_string(result), any ? ": " : "", any ? details : "");
}

void NcclSession::keep_words(ncclResult_t result) noexcept {
  if (failed_) return;
  std::string words = words_of(result);
  const std::lock_guard lock(words_mutex_);
  words_ = std::move(words);
  peer_failed_ = result == ncclRemoteError;
  failed_ = true;
}

void NcclSession::throw_if_failed() {
  if (!failed_) return;
  const bool aborted = comm_ == nullptr;
  abort();
  if (peer_failed_) {
    if (!aborted) hear_of_peer();
    host_->check_alive();  // what the rank that failed says comes first
  }
  throw run_error("{}", words_);
}

void NcclSession::hear_of_peer() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    host_->engine()->advance();
    host_->check_alive();
    std::this_thread::sleep_for(kNap);
  }
}

ncclResult_t NcclSession::state() {
  throw_if_failed();
  ncclResult_t found = ncclInProgress;
  {
    const std::lock_guard lock(mutex_);
    if (!comm_) return found;  // aborted for another rank's failure, of which the host knows
    check(nccl_.comm_get_async_error(comm_, &found));
    check(found);
  }
  throw_if_failed();
  return found;
}

void NcclSession::settle() {
  for (int64_t polls = 0; state() != ncclSuccess; ++polls) {
    host_->engine()->advance();
    check_host();
    host_->engine()->relax(polls);
  }
}

void NcclSession::check_alive() {
  state();
  check_host();
}

void NcclSession::check_host() {
  try {
    host_->check_alive();
  } catch (...) {
    abort();  // kernels that wait for the rank that failed
    throw;
  }
}

std::byte* NcclSession::scratch(size_t bytes) {
  scratch_.reserve(bytes);
  return scratch_.data();
}

std::string NcclSession::failure() {
  if (failed_) {
    // The thread that met it reports it, unless it is stuck.
    const std::lock_guard lock(words_mutex_);
    return ++failures_told_ > kFailuresPassed ? words_ : "";
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // A rank that is inside NCCL hears of it there.
  if (!lock.owns_lock() || !comm_) return "";
  ncclResult_t found = ncclSuccess;
  const ncclResult_t asked = nccl_.comm_get_async_error(comm_, &found);
  if (asked != ncclSuccess) found = asked;
  // The rank that is the cause says it better, if it still can.
  if (found == ncclRemoteError && ++remote_errors_heard_ < kRemoteErrorsPassed) return "";
  return found == ncclSuccess || found == ncclInProgress ? "" : words_of(found);
}

}  // namespace dlrm
