#include "mpi_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "exchanges.h"
#include "mpi_comm.h"

namespace dlrm {
namespace {

// MPI counts are ints: longer blocks travel as several messages, which MPI keeps in order.
constexpr int64_t kMessageBytes = int64_t{1} << 30;

constexpr auto kWithdrawal = std::chrono::milliseconds(100);  // for what is under way

int tag_of(const Exchange& exchange, uint32_t kind, int largest) {
  return static_cast<int>((exchange.sequence * 64 + kind % 64) % static_cast<uint64_t>(largest));
}

}  // namespace

uint32_t kind_of(const char* name) {
  uint32_t hash = 2166136261u;
  for (const char c : std::string_view(name)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  return hash >> 8;
}

MpiExchange::MpiExchange(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, int rank,
                         int largest_tag, Board* board, Exchange exchange)
    : Call(std::move(engine)),
      comm_(comm),
      rank_(rank),
      tag_(tag_of(exchange, kind_of(exchange.name), largest_tag)),
      board_(board),
      exchange_(std::move(exchange)),
      kind_(kind_of(exchange_.name)) {}

MpiExchange::~MpiExchange() {
  withdraw_messages();
  // Where others still read, the notice and the copy are never used again.
  if (!notice_ || notice_->all_have_read()) {
    if (notice_) notice_->held = false;
    if (board_) board_->node().blocks().give_back(staged_);
  }
  engine().memory()->give_back(std::move(exchange_.layout));
}

void MpiExchange::start() {
  const std::lock_guard lock(engine().mutex());
  for (int hop = 1; hop < ranks(); ++hop) {
    const int q = (rank_ + ranks() - hop) % ranks();
    if (!beside_me(q)) {
      start_receive(q);
    } else if (meets(expected(q))) {
      ++to_read_;
    } else {
      board_->expect_nothing(q, exchange_.sequence, exchange_.name);
      expected(q) = kTaken;
    }
  }
  for (int hop = 1; hop < ranks(); ++hop) {
    const int q = (rank_ + hop) % ranks();
    if (!beside_me(q)) start_send(q);
  }
  offer();
  copy_own_block(exchange_, rank_);  // while the others' blocks are on their way
  engine().add(*this);
}

/// Shows the blocks for the ranks of this machine: beside the notice if they are small, where they
/// are if that is shared memory, as a copy there, or, if large, as MPI messages.
void MpiExchange::offer() {
  int readers = 0;
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0, largest = 0;
  for (int q = 0; q < ranks(); ++q) {
    if (q == rank_ || !beside_me(q) || !meets(sent(q))) continue;
    ++readers;
    largest = std::max(largest, sent(q));
    if (sent(q) == 0) continue;
    const int64_t at = exchange_.layout.send_offsets[static_cast<size_t>(q)];
    begin = std::min(begin, at);
    end = std::max(end, at + sent(q));
  }
  if (readers == 0) return;
  Notice& notice = board_->fresh(exchange_.sequence);
  notice.kind = kind_;
  const bool small = largest == 0 || end - begin <= Board::kBeside;
  Spot place;
  if (!small) {
    place = shown(begin, end, largest, readers);
  } else if (largest > 0) {
    const char* from = static_cast<const char*>(exchange_.send) + begin;
    std::memcpy(board_->beside(notice), from, static_cast<size_t>(end - begin));
    place = board_->place_beside(notice);
  }
  for (int q = 0; q < ranks(); ++q) {
    if (!beside_me(q)) continue;
    Offer& offer = board_->offer_to(notice, q);
    offer = {q == rank_ ? 0 : sent(q), {}};
    if (offer.bytes == 0) continue;
    if (place.nowhere()) {
      start_send(q);
    } else {
      const int64_t at = exchange_.layout.send_offsets[static_cast<size_t>(q)];
      offer.place = place + static_cast<size_t>(at - begin);
    }
  }
  notice.post(exchange_.sequence, readers);
  if (small || place.nowhere()) {
    notice.held = false;  // nobody reads the caller's memory
  } else {
    notice_ = &notice;
  }
}

/// Where `readers` others find send + [begin, end), of which each reads `largest` bytes at most:
/// there, or in a copy; nowhere if that is much.
Spot MpiExchange::shown(int64_t begin, int64_t end, int64_t largest, int readers) {
  const char* from = static_cast<const char*>(exchange_.send) + begin;
  const auto bytes = static_cast<size_t>(end - begin);
  Arena& arena = board_->node().arena();
  const Spot place = arena.find(from, bytes);
  if (!place.nowhere() || largest > kMostStaged || end - begin > kMostStaged * readers) {
    return place;
  }
  staged_ = board_->node().blocks().take(bytes);
  if (!staged_.data) return {};
  std::memcpy(staged_.data, from, bytes);
  return staged_.spot;
}

bool MpiExchange::step() {
  const bool all_read = take_from_board();
  if (messages_done() && all_read && (!notice_ || notice_->all_have_read())) return true;
  if (board_ && ++idle_steps_ % kStepsToCheck == 0) board_->node().check_skipped();
  return false;
}

bool MpiExchange::take_from_board() {
  for (int hop = 1; to_read_ > 0 && hop < ranks(); ++hop) {
    const int q = (rank_ + ranks() - hop) % ranks();
    if (!beside_me(q) || expected(q) == kTaken || !take_from(q)) continue;
    expected(q) = kTaken;
    --to_read_;
  }
  return to_read_ == 0;
}

bool MpiExchange::take_from(int q) {
  Notice* notice = board_->find(q, exchange_.sequence);
  if (!notice || notice->kind != kind_) return false;
  const Offer& offer = board_->offer_to_me(*notice);
  require_length(q, offer.bytes);
  if (offer.bytes > 0 && offer.place.nowhere()) {
    start_receive(q);
  } else if (offer.bytes > 0) {
    std::memcpy(receive_place(q), board_->at(q, offer.place), static_cast<size_t>(offer.bytes));
  }
  notice->finish_reading();
  return true;
}

template <class Send>
void MpiExchange::post(int64_t bytes, Send send) {
  if (bytes == 0 && exchange_.rendezvous) send(0, 0);
  for (int64_t begin = 0; begin < bytes; begin += kMessageBytes) {
    send(begin, static_cast<int>(std::min(kMessageBytes, bytes - begin)));
  }
}

void MpiExchange::start_receive(int q) {
  post(expected(q), [&](int64_t begin, int bytes) {
    messages_.push_back({q, bytes});
    check_mpi(MPI_Irecv(receive_place(q) + begin, bytes, MPI_BYTE, q, tag_, comm_,
                        &requests_.emplace_back()),
              exchange_.name);
  });
}

void MpiExchange::start_send(int q) {
  post(sent(q), [&](int64_t begin, int bytes) {
    messages_.push_back({-1, bytes});
    check_mpi(MPI_Isend(send_place(q) + begin, bytes, MPI_BYTE, q, tag_, comm_,
                        &requests_.emplace_back()),
              exchange_.name);
  });
}

bool MpiExchange::messages_done() {
  if (requests_.empty()) return true;
  statuses_.resize(requests_.size());
  int done = 0;
  const int code =
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (const MPI_Status& status : statuses_) check_mpi(status.MPI_ERROR, exchange_.name);
  }
  check_mpi(code, exchange_.name);
  if (!done) return false;
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (messages_[i].rank < 0) continue;
    int bytes = 0;
    check_mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes), exchange_.name);
    if (bytes == messages_[i].bytes) continue;
    throw run_error("{} of rank {} expects {} bytes from rank {}, which sends {}", exchange_.name,
                    rank_, messages_[i].bytes, messages_[i].rank, bytes);
  }
  requests_.clear();
  messages_.clear();
  return true;
}

/// After a failure: no message arrives any more in memory that the caller is about to free.
void MpiExchange::withdraw_messages() {
  const std::lock_guard lock(engine().mutex());
  const auto until = std::chrono::steady_clock::now() + kWithdrawal;
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    int done = 0;
    while (!done && std::chrono::steady_clock::now() < until) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    }
    if (!done && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void MpiExchange::require_length(int q, int64_t bytes) const {
  if (bytes == expected(q)) return;
  throw run_error("{} of rank {} expects {} bytes from rank {}, which sends {}", exchange_.name,
                  rank_, expected(q), q, bytes);
}

}  // namespace dlrm
