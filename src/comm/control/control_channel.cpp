#include "control_channel.h"

#include <algorithm>

#include "comm/mpi/mpi_comm.h"

namespace dlrm::comm {
namespace {

class MpiControlChannel final : public ControlChannel {
 public:
  explicit MpiControlChannel(MPI_Comm comm) : comm_(comm) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  void send(int to, int kind, const void* data, size_t bytes) override {
    const char* from = static_cast<const char*>(data);
    auto message = std::make_unique<Sent>();
    message->to = to;
    message->bytes.assign(from, from + std::min(bytes, kMaxBytes));
    check_mpi(MPI_Isend(message->bytes.data(), static_cast<int>(message->bytes.size()), MPI_BYTE,
                        to, kind, comm_, &message->request),
              "control message");
    sent_.push_back(std::move(message));
  }

  int unsent(int to) const override {
    return static_cast<int>(
        std::count_if(sent_.begin(), sent_.end(), [&](const auto& m) { return m->to == to; }));
  }

  bool all_sent() override {
    make_progress();
    return sent_.empty();
  }

  void make_progress() override {
    std::erase_if(sent_, [](const std::unique_ptr<Sent>& message) {
      int done = 0;
      MPI_Test(&message->request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
  }

  bool receive(Message& message) override {
    int there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "control message");
    if (!there) return false;
    int bytes = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "control message");
    message.from = status.MPI_SOURCE;
    message.kind = status.MPI_TAG;
    message.bytes.resize(static_cast<size_t>(bytes));
    // The probe found it, so this does not block.
    check_mpi(MPI_Recv(message.bytes.data(), bytes, MPI_BYTE, message.from, message.kind, comm_,
                       MPI_STATUS_IGNORE),
              "control message");
    return true;
  }

  void finalize() override { MPI_Finalize(); }
  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }

 private:
  struct Sent {
    int to = 0;
    std::vector<char> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  MPI_Comm comm_;
  std::vector<std::unique_ptr<Sent>> sent_;
};

}  // namespace

std::unique_ptr<ControlChannel> make_mpi_control_channel(MPI_Comm comm) {
  return std::make_unique<MpiControlChannel>(comm);
}

}  // namespace dlrm::comm
