#include "watchdog.h"

#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

#include "dlrm/core/host_name.h"

#include "message_kind.h"

namespace dlrm::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kReportInterval = 1000ms;
constexpr int kMaxUnsent = 2;  // reports to a rank that receives none
constexpr int kJudges = 2;     // ranks that receive the reports of all

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
  skip_lost_time(now);
  observe_progress(now);
  if (now - looks_.report < interval() || reports_stopped()) return std::nullopt;
  looks_.report = now;
  const std::string failure = monitor_.failure();
  if (!failure.empty()) return Alarm{"", failure};
  Peer& own = peers_[static_cast<size_t>(rank_)];
  own.last = make_report(now);
  own.received = now;
  send(own.last);
  std::optional<Alarm> alarm = rank_ < kJudges ? judge(now) : judge_judges(now);
  // The second look finds all ranks that fell silent together.
  looks_.alarms = alarm ? looks_.alarms + 1 : 0;
  return looks_.alarms > 1 ? std::move(alarm) : std::nullopt;
}

Watchdog::Clock::duration Watchdog::interval() const {
  const std::chrono::duration<double> quarter(timeout_.load() / 4);
  return std::min<Clock::duration>(kReportInterval,
                                   std::chrono::duration_cast<Clock::duration>(quarter));
}

/// Time in which this thread did not run counts as one interval: this process may have been
/// stopped. The clocks do not start anew, since on a loaded machine that would put off every alarm.
void Watchdog::skip_lost_time(Clock::time_point now) {
  const bool first = looks_.check == Clock::time_point{};
  const auto lost = now - looks_.check - interval();
  looks_.check = now;
  if (!first && lost <= Clock::duration::zero()) return;
  const auto skip = [&](Clock::time_point& time) {
    time = first ? now : std::min(now, time + lost);
  };
  skip(progress_.changed);
  for (Peer& peer : peers_) skip(peer.received);
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
  copy_name(first.host, host_name().c_str());
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
  if (!channel_) return;
  channel_->make_progress();
  for (int q = 0; q < std::min(size_, kJudges); ++q) {
    if (q == rank_ || channel_->unsent(q) >= kMaxUnsent) continue;
    channel_->send(q, kReport, &own.report, sizeof own.report);
    for (const RankReport& page : own.more) channel_->send(q, kReport, &page, sizeof page);
  }
  if (rank_ >= kJudges) return;
  for (int q = kJudges; q < size_; ++q) {
    if (channel_->unsent(q) < kMaxUnsent) channel_->send(q, kAlive, nullptr, 0);
  }
}

void Watchdog::hear(int from) { peers_[static_cast<size_t>(from)].received = Clock::now(); }

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

std::optional<Alarm> Watchdog::judge(Clock::time_point now) const {
  const double timeout = timeout_.load();
  std::vector<PeerReport> reports;
  for (const Peer& peer : peers_) {
    reports.push_back(peer.last);
    reports.back().seconds_ago = seconds(now - peer.received);
  }
  const bool rank0_is_silent = rank_ > 0 && reports[0].seconds_ago >= timeout;
  if (rank_ > 0 && !rank0_is_silent) return std::nullopt;
  const Stall stall = find_stall(reports, timeout);
  if (!stall.found) return std::nullopt;
  return Alarm{stall.table, stall.error, rank0_is_silent};
}

/// For ranks that receive no reports. As long as a judge is alive, it sees what this rank cannot.
/// If none is, the lowest rank alive ends the job: higher ones wait until it has had its two looks.
std::optional<Alarm> Watchdog::judge_judges(Clock::time_point now) const {
  const double silence =
      std::min(seconds(now - peers_[0].received), seconds(now - peers_[1].received));
  const double turn = 2 * (rank_ - kJudges) * seconds(interval());
  if (silence < timeout_.load() + turn) return std::nullopt;
  return Alarm{"", fmt::format("ranks 0, 1 no longer answer: last heard {:.0f} s ago", silence),
               true};
}

}  // namespace dlrm::comm
