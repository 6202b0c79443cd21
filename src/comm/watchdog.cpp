#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "service.h"

namespace dlrm {
namespace {

using namespace std::chrono_literals;

constexpr auto kPeriod = 1000ms;
constexpr auto kMissedTurns = 2s;  // this process itself was stopped
constexpr double kGraceSeconds = 10;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

template <size_t N>
void copy_name(char (&to)[N], const char* from) {
  std::snprintf(to, N, "%s", from);
}

}  // namespace

void Service::watch() {
  const auto now = Clock::now();
  if (!watching_ || now - last_turn_ > kMissedTurns) {
    // Others' silence and our own idleness count from here.
    watching_ = true;
    last_change_ = now;
    std::fill(heard_at_.begin(), heard_at_.end(), now);
  }
  last_turn_ = now;
  observe_progress(now);
  const auto period =
      std::min<Clock::duration>(kPeriod, std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(timeout_.load() / 4)));
  if (now - last_report_ < period || hushed_.load()) return;
  last_report_ = now;
  const std::string failure = engine_->failure();
  if (!failure.empty()) {
    requests_.push_back({rank_, static_cast<int32_t>(ExitCode::kFailure), failure});
    return;
  }
  const auto own = static_cast<size_t>(rank_);
  heard_[own] = make_report(now);
  heard_at_[own] = now;
  send_report(heard_[own]);
  judge(now);
}

const char* Service::current_stage() {
  const std::lock_guard lock(mutex_);
  return stage_->load(std::memory_order_relaxed);
}

void Service::observe_progress(Clock::time_point now) {
  const uint64_t progress = engine_->progress();
  const char* stage = current_stage();
  if (progress == last_progress_ && stage == last_stage_ && !paused_.load()) return;
  last_progress_ = progress;
  last_stage_ = stage;
  last_change_ = now;
}

Heard Service::make_report(Clock::time_point now) const {
  Heard own;
  own.ever = true;
  RankReport first;
  first.rank = rank_;
  first.paused = paused_.load();
  first.idle_seconds = seconds(now - last_change_);
  first.timeout_seconds = timeout_.load();
  copy_name(first.stage, last_stage_);
  std::vector<RankReport> pages{first};
  engine_->each_activity([&](const Activity& activity) {
    if (pages.back().comm_count == RankReport::kComms) pages.push_back(first);
    RankReport& page = pages.back();
    RankReport::Comm& comm = page.comms[page.comm_count++];
    comm.id = activity.id();
    comm.entered = activity.entered();
    for (uint64_t k = 0; k < Activity::kKept; ++k) {
      const Activity::Entry entry = activity.call(k);
      copy_name(comm.calls[k].name, entry.name);
      comm.calls[k].bytes = entry.bytes;
    }
  });
  for (size_t p = 0; p < pages.size(); ++p) {
    pages[p].page = static_cast<int16_t>(p);
    pages[p].pages = static_cast<int16_t>(pages.size());
  }
  own.report = pages[0];
  own.more.assign(pages.begin() + 1, pages.end());
  return own;
}

void Service::send_report(const Heard& own) {
  static_assert(sizeof(RankReport) <= Wire::kLargest);
  // Rank 1 listens too, for the case that rank 0 is the one that no longer answers.
  for (int q = 0; wire_ && q < std::min(size_, 2); ++q) {
    if (q == rank_ || wire_->unsent(q) >= 2) continue;
    wire_->send(q, kReport, &own.report, sizeof own.report);
    for (const RankReport& page : own.more) wire_->send(q, kReport, &page, sizeof page);
  }
}

/// Pages come in their order; a report counts once all of it is there.
void Service::hear(int from, const RankReport& page) {
  Heard& half = half_heard_[static_cast<size_t>(from)];
  if (page.page == 0) {
    half.report = page;
    half.more.clear();
  } else {
    half.more.push_back(page);
  }
  if (page.page + 1 < page.pages) return;
  half.ever = true;
  heard_[static_cast<size_t>(from)] = half;
  heard_at_[static_cast<size_t>(from)] = Clock::now();
}

void Service::judge(Clock::time_point now) {
  const double timeout = timeout_.load();
  for (size_t q = 0; q < heard_.size(); ++q) heard_[q].seconds_ago = seconds(now - heard_at_[q]);
  if (rank_ == 0) {
    const Stall stall = find_stall(heard_, timeout);
    if (stall.found) report_stall(stall);
  } else if (rank_ == 1 && heard_[0].seconds_ago >= timeout) {
    const Stall stall = find_stall(heard_, timeout);
    report_stall(stall);
    // Rank 0 will not answer.
    end_without_rank0();
  } else if (seconds(now - last_change_) >= timeout + kGraceSeconds) {
    // The observers would have ended the job by now, were they alive.
    requests_.push_back({rank_, static_cast<int32_t>(ExitCode::kFailure),
                         fmt::format("rank {} made no progress for {:.0f} s in stage {}", rank_,
                                     seconds(now - last_change_), last_stage_)});
  }
}

void Service::report_stall(const Stall& stall) {
  preface_ = stall.table;
  requests_.push_back({rank_, static_cast<int32_t>(ExitCode::kFailure), stall.error});
}

}  // namespace dlrm
