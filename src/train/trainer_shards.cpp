#include "dlrm/device/transfer.h"
#include "dlrm/train/session.h"
#include "dlrm/train/trainer.h"

#include "checkpoint_agreement.h"

namespace dlrm {

std::vector<std::string> Trainer::tuned_algorithms() const {
  const std::vector<std::byte> mine = ops_.tuned_algorithms();
  return gather_texts(context_.comm, {reinterpret_cast<const char*>(mine.data()), mine.size()});
}

void Trainer::restore_tuned_algorithms(const std::vector<std::string>& by_rank) {
  if (by_rank.size() != static_cast<size_t>(context_.comm.size())) return;
  const std::string& mine = by_rank[static_cast<size_t>(context_.comm.rank())];
  ops_.restore_tuned_algorithms({reinterpret_cast<const std::byte*>(mine.data()), mine.size()});
}

std::vector<TensorShard> Trainer::shards() {
  std::vector<TensorShard> all = embeddings_.shards();
  Parameters& parameters = model_.parameters();
  const auto transfer = std::make_shared<Transfer>(context_.device, context_.stream);
  const auto add = [&](const Parameters::Tensor& t, const std::string& path, float* data) {
    TensorShard piece;
    const int64_t cols = t.cols ? t.cols : 1;
    piece.path = path;
    piece.shape = t.cols ? std::vector<int64_t>{t.rows, t.cols} : std::vector<int64_t>{t.rows};
    piece.rows = {0, t.rows};
    piece.columns = {0, cols};
    piece.saves = context_.comm.rank() == 0;
    const int64_t stride = t.stride;
    piece.read = [transfer, data, cols, stride](int64_t first, int64_t count, float* out) {
      transfer->read_rows(data + first * stride, stride, count, cols, out);
    };
    piece.write = [transfer, data, cols, stride](int64_t first, int64_t count, const float* in) {
      transfer->write_rows(data + first * stride, stride, count, cols, in);
    };
    all.push_back(std::move(piece));
  };
  const auto names = parameters.state_names();
  for (size_t i = 0; i < parameters.tensors().size(); ++i) {
    const auto& t = parameters.tensors()[i];
    const int number = static_cast<int>(i);
    add(t, t.path, parameters.values(number));
    for (size_t s = 0; s < names.size(); ++s) {
      add(t, t.path + "_" + names[s], parameters.state(static_cast<int>(s), number));
    }
  }
  return all;
}

}  // namespace dlrm
