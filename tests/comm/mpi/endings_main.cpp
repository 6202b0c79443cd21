// Ends a job in the way that the first argument names.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>

#include "dlrm/comm/world.h"
#include "dlrm/device/device.h"

namespace dlrm {
namespace {

using namespace std::chrono_literals;

constexpr double kTimeout = 2;

std::atomic<bool> signal_on_main{false};
pthread_t main_thread;

void sleep_forever() {
  for (;;) std::this_thread::sleep_for(1h);
}

void stop(World& world, const std::vector<int>& ranks, bool paused = false) {
  Trace trace;
  world.start_watchdog(kTimeout, trace);
  world.pause_watchdog(paused);
  Span span(trace, "interact");
  world.comm().barrier();
  std::this_thread::sleep_for(300ms);
  for (const int rank : ranks) {
    if (world.rank() == rank) std::raise(SIGSTOP);
  }
  for (;;) world.comm().barrier();
}

/// All ranks are stopped for longer than the timeout, as a batch system may do.
void suspended(World& world) {
  constexpr double kSuspendedTimeout = 6;
  Trace trace;
  world.start_watchdog(kSuspendedTimeout, trace);
  world.comm().barrier();
  std::thread waker([process = ::getpid()] {
    const pid_t child = ::fork();
    if (child != 0) return;
    ::sleep(8);
    ::kill(process, SIGCONT);
    ::_exit(0);
  });
  waker.join();
  std::raise(SIGSTOP);
  for (int i = 0; i < 100; ++i) {
    world.comm().barrier();
    std::this_thread::sleep_for(10ms);
  }
}

void one_ends(World& world, int rank, ExitCode code, const std::string& text) {
  world.comm().barrier();
  if (world.rank() == rank) {
    std::printf("last line on stdout\n");
    world.end_all(code, text);
  }
  for (;;) world.comm().barrier();
}

void sleeper(World& world) {
  Trace trace;
  world.start_watchdog(kTimeout, trace);
  for (int i = 0; i < 41; ++i) world.comm().barrier();
  Span span(trace, world.rank() == 1 ? "lookup" : "return");
  if (world.rank() == 1) sleep_forever();
  int64_t value = 1;
  world.comm().allreduce<int64_t>(View<int64_t>(&value, 1));
}

/// Rank 1 does not enter a call of the last of many communicators.
void sleeper_among_many(World& world) {
  Trace trace;
  world.start_watchdog(kTimeout, trace);
  std::vector<std::unique_ptr<Communicator>> many;
  for (int i = 0; i < 40; ++i) many.push_back(world.comm().duplicate());
  Span span(trace, world.rank() == 1 ? "lookup" : "return");
  if (world.rank() == 1) sleep_forever();
  many[35]->barrier();
}

/// Rank 0 sends bytes that rank 1 does not expect.
void send_the_unexpected(World& world, size_t bytes, int times) {
  const std::shared_ptr<Device> device = make_cpu_device();
  Device& memory = world.comm().shared_memory(*device);
  const Array<char> data(memory, bytes, "test");
  const int64_t sent = world.rank() == 0 ? static_cast<int64_t>(bytes) : 0;
  ExchangeLayout layout = ExchangeLayout::packed({0, sent}, {0, 0});
  if (world.rank() == 1) layout = ExchangeLayout::packed({0, 0}, {0, 0});
  std::vector<char> nothing(1);
  try {
    for (int i = 0; i < times; ++i) world.comm().alltoallv(data.data(), nothing.data(), layout);
    if (world.rank() == 1 && times > 1) sleep_forever();
    world.comm().barrier();
  } catch (const Error& error) {
    world.end_all(error.code(), error.what());
  }
}

/// Rank 0 sends rank 1 fewer bytes than it expects.
void send_too_few(World& world) {
  const int64_t sent = world.rank() == 0 ? 8 : 0, expected = world.rank() == 1 ? 16 : 0;
  std::vector<char> data(16), received(16);
  try {
    world.comm().alltoallv(data.data(), received.data(),
                           ExchangeLayout::packed({0, sent}, {expected, 0}));
  } catch (const Error& error) {
    world.end_all(error.code(), error.what());
  }
  for (;;) world.comm().barrier();
}

void mismatch(World& world) {
  Trace trace;
  world.start_watchdog(kTimeout, trace);
  int64_t value = 1;
  const View<int64_t> data(&value, 1);
  if (world.rank() == 0) {
    world.comm().allreduce<int64_t>(data);
  } else {
    world.comm().allreduce_max(data);
  }
}

void alone_stalls(World& world) {
  Trace trace;
  world.start_watchdog(1, trace);
  Span span(trace, "bottom");
  sleep_forever();
}

void pause_for_long(World& world) {
  Trace trace;
  world.start_watchdog(1.5, trace);
  if (world.rank() == 1) {
    world.pause_watchdog(true);
    std::this_thread::sleep_for(3000ms);
    world.pause_watchdog(false);
  }
  world.comm().barrier();
}

void hidden_exception(World&) { throw std::string("not caught below"); }

void all_end(World& world) {
  world.end_all(ExitCode::kUsage, fmt::format("rank {} found a bad key", world.rank()));
}

void dead_rank(World& world) {
  world.comm().barrier();
  if (world.rank() == 1) std::raise(SIGKILL);
  for (;;) world.comm().barrier();
}

void stopped_rank0_error(World& world) {
  world.comm().barrier();
  if (world.rank() == 0) std::raise(SIGSTOP);
  std::this_thread::sleep_for(200ms);
  if (world.rank() == 1) world.end_all(ExitCode::kFailure, "rank one could not wait");
  for (;;) world.comm().barrier();
}

void signals(World& world) {
  main_thread = pthread_self();
  std::signal(SIGUSR1, [](int) { signal_on_main = pthread_equal(pthread_self(), main_thread); });
  sigset_t usr1, before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  // While the main thread blocks the signal, no other thread may receive it.
  pthread_sigmask(SIG_BLOCK, &usr1, &before);
  ::kill(::getpid(), SIGUSR1);
  std::this_thread::sleep_for(50ms);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!signal_on_main) world.end_all(ExitCode::kFailure, "a service thread took the signal");
}

/// Rank 1 fails with a call in flight. Rank 0 starts that call after rank 1 has abandoned it.
void fails_within_a_call(World& world) {
  Trace trace;
  world.start_watchdog(30, trace);
  const std::unique_ptr<Communicator> other = world.comm().duplicate();
  std::vector<char> data(100000, world.rank() == 0 ? 'b' : 'a');
  if (world.rank() == 0) {
    other->barrier();
    Pending late = world.comm().start_broadcast(data.data(), 100, 0);
    for (;;) late.poll();
  }
  std::string words;
  try {
    Pending broadcast = world.comm().start_broadcast(data.data(), 100, 0);
    Pending barrier = world.comm().start_barrier();
    throw run_error("rank one could not go on");
  } catch (const Error& error) {
    words = error.what();
  }
  other->barrier();
  std::this_thread::sleep_for(300ms);
  if (data != std::vector<char>(100000, 'a')) words = "memory of an abandoned call is written to";
  world.end_all(ExitCode::kFailure, words);
}

void orderly(World& world) {
  world.comm().barrier();
  if (world.rank() != 0) std::this_thread::sleep_for(100ms);
}

const std::map<std::string, std::function<void(World&)>> kEndings = {
    {"orderly", orderly},
    {"one-usage", [](World& w) { one_ends(w, 1, ExitCode::kUsage, "rank one says no"); }},
    {"zero-failure", [](World& w) { one_ends(w, 0, ExitCode::kFailure, "rank zero says no"); }},
    {"one-long", [](World& w) { one_ends(w, 1, ExitCode::kFailure, std::string(5000, 'x')); }},
    {"one-done", [](World& w) { one_ends(w, 1, ExitCode::kDone, ""); }},
    {"all-stopped", [](World& w) { w.end_all(ExitCode::kStopped, "stopped after step 7"); }},
    {"all-done", [](World& w) { w.end_all(ExitCode::kDone, ""); }},
    {"all-usage", all_end},
    {"too-few", send_too_few},
    {"sleeper", sleeper},
    {"stop-0", [](World& w) { stop(w, {0}); }},
    {"stop-2", [](World& w) { stop(w, {2}); }},
    {"stop-01",
     [](World& w) {
       stop(w, {0, 1});
     }},
    {"stop-01-paused",
     [](World& w) {
       stop(w, {0, 1}, true);
     }},
    {"stop-012-paused",
     [](World& w) {
       stop(w, {0, 1, 2}, true);
     }},
    {"stop-13",
     [](World& w) {
       stop(w, {1, 3});
     }},
    {"suspended", suspended},
    {"sleeper-among-many", sleeper_among_many},
    {"unexpected-large", [](World& w) { send_the_unexpected(w, 100000, 1); }},
    {"unexpected-small", [](World& w) { send_the_unexpected(w, 100, w.rank() == 0 ? 10000 : 2); }},
    {"mismatch", mismatch},
    {"alone-stalls", alone_stalls},
    {"pause", pause_for_long},
    {"hidden-exception", hidden_exception},
    {"dead-rank", dead_rank},
    {"stopped-rank0-error", stopped_rank0_error},
    {"signals", signals},
    {"fails-within-a-call", fails_within_a_call},
};

}  // namespace
}  // namespace dlrm

int main(int argc, char** argv) {
  try {
    dlrm::World world(&argc, &argv);
    const auto ending = dlrm::kEndings.find(argc > 1 ? argv[1] : "");
    if (ending == dlrm::kEndings.end()) world.end_all(dlrm::ExitCode::kUsage, "which ending?");
    ending->second(world);
    world.finish();
  } catch (...) {
    return 1;
  }
  return 0;
}
