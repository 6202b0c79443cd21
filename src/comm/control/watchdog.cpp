#include "watchdog.h"

#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

#include "message_kind.h"

namespace dlrm::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kReportInterval = 1000ms;
constexpr auto kStoppedTime = 2s;  // between two checks: this process itself was stopped
constexpr double kGraceSeconds = 10;
constexpr int kMaxUnsent = 2;  // reports to a rank that receives none

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

template <size_t N>
void copy_name(char (&to)[N], const char* from) {
  std::snprintf(to, N, "%s", from);
}

}  // namespace

Watchdog::Watchdog(int rank, int size, ControlChannel* channel, Monitor& monitor)
    : rank_(rank),
      size_(size),
      channel_(channel),
      monitor_(monitor),
      peers_(static_cast<size_t>(size)) {}

void Watchdog::start(double timeout_seconds, const Trace& trace) {
  {
    const std::lock_guard lock(mutex_);
    stage_ = trace.shared_current();
  }
  timeout_.store(timeout_seconds);
}

std::optional<Alarm> Watchdog::check() {
  const double timeout = timeout_.load();
  if (timeout <= 0) return std::nullopt;
  const auto now = Clock::now();
  if (now - last_check_ > kStoppedTime) restart_clocks(now);
  last_check_ = now;
  observe_progress(now);
  const auto interval = std::min<Clock::duration>(
      kReportInterval,
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout / 4)));
  if (now - last_report_ < interval || reports_stopped()) return std::nullopt;
  last_report_ = now;
  const std::string failure = monitor_.failure();
  if (!failure.empty()) return Alarm{"", failure};
  Peer& own = peers_[static_cast<size_t>(rank_)];
  own.last = make_report(now);
  own.received = now;
  send(own.last);
  return judge(now);
}

/// Neither the silence of other ranks nor this rank's own idle time counts before `now`.
void Watchdog::restart_clocks(Clock::time_point now) {
  progress_.changed = now;
  for (Peer& peer : peers_) peer.received = now;
}

const char* Watchdog::current_stage() {
  const std::lock_guard lock(mutex_);
  return stage_->load(std::memory_order_relaxed);
}

void Watchdog::observe_progress(Clock::time_point now) {
  const uint64_t progress = monitor_.progress();
  const char* stage = current_stage();
  if (progress == progress_.count && stage == progress_.stage && !paused_.load()) return;
  progress_ = {progress, stage, now};
}

PeerReport Watchdog::make_report(Clock::time_point now) const {
  RankReport first;
  first.rank = rank_;
  first.paused = paused_.load();
  first.idle_seconds = seconds(now - progress_.changed);
  first.timeout_seconds = timeout_.load();
  copy_name(first.stage, progress_.stage);
  std::vector<RankReport> pages{first};
  monitor_.each_call_log([&](const CallLog& log) {
    if (pages.back().comm_count == RankReport::kComms) pages.push_back(first);
    RankReport& page = pages.back();
    RankReport::Comm& comm = page.comms[page.comm_count++];
    comm.id = log.id();
    comm.entered = log.entered();
    for (uint64_t k = 0; k < CallLog::kKept; ++k) {
      const CallLog::Entry entry = log.call(k);
      copy_name(comm.calls[k].name, entry.name);
      comm.calls[k].bytes = entry.bytes;
    }
  });
  for (size_t p = 0; p < pages.size(); ++p) {
    pages[p].page = static_cast<int16_t>(p);
    pages[p].pages = static_cast<int16_t>(pages.size());
  }
  PeerReport own;
  own.received = true;
  own.report = pages[0];
  own.more.assign(pages.begin() + 1, pages.end());
  return own;
}

void Watchdog::send(const PeerReport& own) {
  static_assert(sizeof(RankReport) <= ControlChannel::kMaxBytes);
  for (int q = 0; channel_ && q < std::min(size_, 2); ++q) {
    if (q == rank_ || channel_->unsent(q) >= kMaxUnsent) continue;
    channel_->send(q, kReport, &own.report, sizeof own.report);
    for (const RankReport& page : own.more) channel_->send(q, kReport, &page, sizeof page);
  }
}

/// Pages arrive in order. A report counts once its last page has arrived.
void Watchdog::receive(int from, const RankReport& page) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  if (page.page == 0) {
    peer.partial.report = page;
    peer.partial.more.clear();
  } else {
    peer.partial.more.push_back(page);
  }
  if (page.page + 1 < page.pages) return;
  peer.partial.received = true;
  peer.last = peer.partial;
  peer.received = Clock::now();
}

std::optional<Alarm> Watchdog::judge(Clock::time_point now) {
  const double timeout = timeout_.load();
  std::vector<PeerReport> reports;
  for (const Peer& peer : peers_) {
    reports.push_back(peer.last);
    reports.back().seconds_ago = seconds(now - peer.received);
  }
  const bool rank0_is_silent = rank_ == 1 && reports[0].seconds_ago >= timeout;
  if (rank_ == 0 || rank0_is_silent) {
    const Stall stall = find_stall(reports, timeout);
    if (!stall.found) return std::nullopt;
    return Alarm{stall.table, stall.error, rank0_is_silent};
  }
  // Ranks 0 and 1 would have ended the job by now if they could.
  const double idle = seconds(now - progress_.changed);
  if (idle < timeout + kGraceSeconds) return std::nullopt;
  return Alarm{"", fmt::format("rank {} made no progress for {:.0f} s in stage {}", rank_, idle,
                               progress_.stage)};
}

}  // namespace dlrm::comm
