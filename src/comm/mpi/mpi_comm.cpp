#include "mpi_comm.h"

#include <string_view>
#include <utility>

#include "comm/calls/call.h"
#include "comm/collectives/node_gather.h"
#include "comm/shared/exchange_table.h"
#include "mpi_exchange.h"

namespace dlrm::comm {
namespace {

/// MPI_Comm_idup, then an exchange of the tables' addresses. Neither blocks: other ranks may start
/// it much later.
class Duplication final : public Call {
 public:
  Duplication(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, MPI_Comm& copy,
              ExchangeTable* table)
      : Call(std::move(engine)), comm_(comm), copy_(copy), table_(table) {}

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
    if (!table_) return true;
    if (!addresses_.empty()) {
      table_->connect(addresses_);
      return true;
    }
    int size = 1;
    check_mpi(MPI_Comm_size(copy_, &size), "MPI_Comm_size");
    addresses_.resize(static_cast<size_t>(size));
    mine_ = table_->address();
    check_mpi(MPI_Iallgather(&mine_, sizeof(ArenaAddress), MPI_BYTE, addresses_.data(),
                             sizeof(ArenaAddress), MPI_BYTE, copy_, &request_),
              "MPI_Iallgather");
    return false;
  }

  const MPI_Comm comm_;
  MPI_Comm& copy_;
  ExchangeTable* const table_;
  ArenaAddress mine_;
  std::vector<ArenaAddress> addresses_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiComm final : public Communicator {
 public:
  MpiComm(MPI_Comm comm, std::shared_ptr<ProgressEngine> engine,
          std::shared_ptr<const NodeLayout> nodes, std::unique_ptr<ExchangeTable> table)
      : Communicator(std::move(engine)),
        comm_(comm),
        nodes_(std::move(nodes)),
        table_(std::move(table)) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    int* largest = nullptr;
    int known = 0;
    check_mpi(MPI_Comm_get_attr(comm_, MPI_TAG_UB, &largest, &known), "MPI_TAG_UB");
    largest_tag_ = known ? *largest : 32767;  // the minimum that MPI guarantees
  }

  ~MpiComm() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::string describe() const override {
    if (!table_ || table_->group()->size() == 1) return "mpi";
    return table_->spans_all_ranks() ? "shared memory" : "mpi, shared memory within a machine";
  }
  int64_t shared_memory_peak() const override {
    return table_ ? static_cast<int64_t>(table_->group()->arena().peak_bytes()) : 0;
  }

  std::unique_ptr<Communicator> duplicate() override {
    MPI_Comm copy = MPI_COMM_NULL;
    reserve("duplicate", 0);
    auto table = table_ ? std::make_unique<ExchangeTable>(table_->group(), size_) : nullptr;
    start_call<Duplication>(engine(), comm_, copy, table.get()).wait();
    return std::make_unique<MpiComm>(copy, engine(), nodes_, std::move(table));
  }

  Pending start_exchange(Exchange exchange) override {
    if (exchange.is_gather && nodes_ && nodes_->largest() > 1) {
      return start_call<NodeGather>(*this, *nodes_, std::move(exchange));
    }
    return start_call<MpiExchange>(engine(), comm_, rank_, largest_tag_, nodes_.get(), table_.get(),
                                   std::move(exchange));
  }
  const NodeLayout* node_layout() const override { return nodes_.get(); }

  Device& shared_memory(Device& device) override {
    const bool shares = table_ && table_->group()->size() > 1;
    return shares && device.host_visible_memory() ? table_->group()->device_over(device) : device;
  }

 private:
  ExchangeTable* shared_table() override {
    return table_ && table_->spans_all_ranks() ? table_.get() : nullptr;
  }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  int largest_tag_ = 0;
  const std::shared_ptr<const NodeLayout> nodes_;
  std::unique_ptr<ExchangeTable> table_;
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
                                            std::shared_ptr<const NodeLayout> nodes,
                                            const std::shared_ptr<SharedMemoryGroup>& group) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (nodes && nodes->nodes() == 1) nodes = nullptr;
  if (!group || size == 1) {
    return std::make_unique<MpiComm>(comm, std::move(engine), std::move(nodes), nullptr);
  }
  auto table = std::make_unique<ExchangeTable>(group, size);
  const ArenaAddress mine = table->address();
  std::vector<ArenaAddress> addresses(static_cast<size_t>(size));
  check_mpi(
      MPI_Allgather(&mine, sizeof mine, MPI_BYTE, addresses.data(), sizeof mine, MPI_BYTE, comm),
      "MPI_Allgather");
  table->connect(addresses);
  return std::make_unique<MpiComm>(comm, std::move(engine), std::move(nodes), std::move(table));
}

}  // namespace dlrm::comm
