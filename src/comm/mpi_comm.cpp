#include "mpi_comm.h"

#include <string_view>
#include <utility>

#include "board.h"
#include "mpi_exchange.h"
#include "progress.h"

namespace dlrm {
namespace {

/// MPI_Comm_idup in flight, then the exchange of where boards are: the other ranks may be long in
/// coming.
class Duplication final : public Call {
 public:
  Duplication(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, MPI_Comm& copy, Board* board)
      : Call(std::move(engine)), comm_(comm), copy_(copy), board_(board) {}

  void start() {
    const std::lock_guard lock(engine().mutex());
    check_mpi(MPI_Comm_idup(comm_, &copy_, &request_), "MPI_Comm_idup");
    engine().add(*this);
  }

 private:
  bool step() override {
    int done = 0;
    check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    if (!done) return false;
    if (!board_) return true;
    if (!places_.empty()) {
      board_->connect(places_);
      return true;
    }
    int size = 1;
    check_mpi(MPI_Comm_size(copy_, &size), "MPI_Comm_size");
    places_.resize(static_cast<size_t>(size));
    mine_ = board_->place();
    check_mpi(MPI_Iallgather(&mine_, sizeof(Spot), MPI_BYTE, places_.data(), sizeof(Spot), MPI_BYTE,
                             copy_, &request_),
              "MPI_Iallgather");
    return false;
  }

  const MPI_Comm comm_;
  MPI_Comm& copy_;
  Board* const board_;
  Spot mine_;
  std::vector<Spot> places_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiComm final : public Communicator {
 public:
  MpiComm(MPI_Comm comm, std::shared_ptr<ProgressEngine> engine, std::unique_ptr<Board> board)
      : Communicator(std::move(engine)), comm_(comm), board_(std::move(board)) {
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

  std::string describe() const override {
    if (!board_ || board_->node().size() == 1) return "mpi";
    return board_->complete() ? "shared memory" : "mpi, shared memory within a machine";
  }
  int64_t shared_memory_peak() const override {
    return board_ ? static_cast<int64_t>(board_->node().arena().peak_bytes()) : 0;
  }

  std::unique_ptr<Communicator> duplicate() override {
    MPI_Comm copy = MPI_COMM_NULL;
    reserve("duplicate", 0);
    auto board = board_ ? std::make_unique<Board>(board_->shared_node(), size_) : nullptr;
    start_call<Duplication>(engine(), comm_, copy, board.get()).wait();
    return std::make_unique<MpiComm>(copy, engine(), std::move(board));
  }

  Pending start_exchange(Exchange exchange) override {
    return start_call<MpiExchange>(engine(), comm_, rank_, largest_tag_, board_.get(),
                                   std::move(exchange));
  }

  Device& shared_memory(Device& device) override {
    // Alone on its machine a rank has nobody to show it to.
    const bool shows = board_ && board_->node().size() > 1;
    return shows && device.host_visible_memory() ? board_->node().memory(device) : device;
  }

 private:
  Board* board() override { return board_ && board_->complete() ? board_.get() : nullptr; }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  int largest_tag_ = 0;
  std::unique_ptr<Board> board_;
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

std::unique_ptr<Communicator> make_mpi_comm(MPI_Comm comm, std::shared_ptr<ProgressEngine> engine,
                                            const std::shared_ptr<SharedNode>& node) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (!node || size == 1) return std::make_unique<MpiComm>(comm, std::move(engine), nullptr);
  auto board = std::make_unique<Board>(node, size);
  const Spot mine = board->place();
  std::vector<Spot> places(static_cast<size_t>(size));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, places.data(), sizeof mine, MPI_BYTE, comm),
            "MPI_Allgather");
  board->connect(places);
  return std::make_unique<MpiComm>(comm, std::move(engine), std::move(board));
}

}  // namespace dlrm
