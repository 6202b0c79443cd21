#include "mpi_comm.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "exchanges.h"
#include "progress.h"

namespace dlrm {
namespace {

// MPI counts are ints: longer blocks travel as several messages, which MPI keeps in order.
constexpr int64_t kMessageBytes = int64_t{1} << 30;

/// What distinguishes the messages of one call from those of others in flight. The collective's
/// name is in it, so that ranks in different calls wait (and the watchdog names them) instead of
/// reading each other's bytes.
int tag_of(const Exchange& exchange, int largest) {
  uint32_t hash = 2166136261u;
  for (const char c : std::string_view(exchange.name)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  const uint64_t kind = (hash >> 8) % 64;
  return static_cast<int>((exchange.sequence * 64 + kind) % static_cast<uint64_t>(largest));
}

class MpiExchange final : public Call {
 public:
  MpiExchange(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, int rank, int tag,
              Exchange exchange)
      : Call(std::move(engine)),
        comm_(comm),
        rank_(rank),
        tag_(tag),
        exchange_(std::move(exchange)) {}

  void start() {
    const std::lock_guard lock(engine().mutex());
    const ExchangeLayout& layout = exchange_.layout;
    const auto ranks = layout.send_bytes.size();
    for (size_t hop = 1; hop < ranks; ++hop) {
      const size_t q = (static_cast<size_t>(rank_) + ranks - hop) % ranks;
      post(layout.receive_bytes[q], [&](int64_t begin, int bytes) {
        receive(static_cast<char*>(exchange_.receive) + layout.receive_offsets[q] + begin, bytes,
                static_cast<int>(q));
      });
    }
    receives_ = requests_.size();
    for (size_t hop = 1; hop < ranks; ++hop) {
      const size_t q = (static_cast<size_t>(rank_) + hop) % ranks;
      post(layout.send_bytes[q], [&](int64_t begin, int bytes) {
        send(static_cast<const char*>(exchange_.send) + layout.send_offsets[q] + begin, bytes,
             static_cast<int>(q));
      });
    }
    copy_own_block(exchange_, rank_);  // while the messages are on their way
    engine().add(*this);
  }

 private:
  template <class Message>
  void post(int64_t bytes, Message message) {
    if (bytes == 0 && exchange_.rendezvous) message(0, 0);
    for (int64_t begin = 0; begin < bytes; begin += kMessageBytes) {
      message(begin, static_cast<int>(std::min(kMessageBytes, bytes - begin)));
    }
  }

  void receive(char* to, int bytes, int q) {
    expected_.push_back(bytes);
    check_mpi(MPI_Irecv(to, bytes, MPI_BYTE, q, tag_, comm_, &requests_.emplace_back()),
              exchange_.name);
  }

  void send(const char* from, int bytes, int q) {
    check_mpi(MPI_Isend(from, bytes, MPI_BYTE, q, tag_, comm_, &requests_.emplace_back()),
              exchange_.name);
  }

  bool step() override {
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
    for (size_t i = 0; i < receives_; ++i) check_length(i);
    return true;
  }

  void check_length(size_t i) const {
    int bytes = 0;
    check_mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes), exchange_.name);
    if (bytes == expected_[i]) return;
    throw run_error("{} of rank {} expects {} bytes from rank {}, which sends {}", exchange_.name,
                    rank_, expected_[i], statuses_[i].MPI_SOURCE, bytes);
  }

  const MPI_Comm comm_;
  const int rank_;
  const int tag_;
  const Exchange exchange_;
  std::vector<MPI_Request> requests_;  // receives, then sends
  std::vector<MPI_Status> statuses_;
  std::vector<int> expected_;
  size_t receives_ = 0;
};

/// MPI_Comm_idup in flight: the other ranks may be long in coming.
class Duplication final : public Call {
 public:
  Duplication(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, MPI_Comm& copy)
      : Call(std::move(engine)), comm_(comm), copy_(copy) {}
  void start() {
    const std::lock_guard lock(engine().mutex());
    check_mpi(MPI_Comm_idup(comm_, &copy_, &request_), "MPI_Comm_idup");
    engine().add(*this);
  }

 private:
  bool step() override {
    int done = 0;
    check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    return done != 0;
  }
  const MPI_Comm comm_;
  MPI_Comm& copy_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiComm final : public Communicator {
 public:
  MpiComm(MPI_Comm comm, std::shared_ptr<ProgressEngine> engine)
      : Communicator(std::move(engine)), comm_(comm) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    int* largest = nullptr;
    int known = 0;
    check_mpi(MPI_Comm_get_attr(comm_, MPI_TAG_UB, &largest, &known), "MPI_TAG_UB");
    largest_tag_ = known ? *largest : 32767;  // what every MPI allows
  }

  ~MpiComm() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Communicator> duplicate() override {
    MPI_Comm copy = MPI_COMM_NULL;
    reserve("duplicate", 0);
    start_call<Duplication>(engine(), comm_, copy).wait();
    return std::make_unique<MpiComm>(copy, engine());
  }

  Pending start_exchange(Exchange exchange) override {
    const int tag = tag_of(exchange, largest_tag_);
    return start_call<MpiExchange>(engine(), comm_, rank_, tag, std::move(exchange));
  }

 private:
  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  int largest_tag_ = 0;
};

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw run_error("MPI failed in {}: {}", what,
                  std::string_view(text, static_cast<size_t>(length)));
}

std::unique_ptr<Communicator> make_mpi_comm(MPI_Comm comm, std::shared_ptr<ProgressEngine> engine) {
  return std::make_unique<MpiComm>(comm, std::move(engine));
}

}  // namespace dlrm
