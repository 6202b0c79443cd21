#include <memory>

#include "dlrm/device/transfer.h"
#include "dlrm/nn/parameters.h"

namespace dlrm {

std::vector<TensorShard> Parameters::shards(bool saves) {
  std::vector<TensorShard> all;
  const auto transfer = std::make_shared<Transfer>(context_.device, context_.stream);
  const auto add = [&](const Tensor& t, const std::string& path, float* data, bool is_state) {
    TensorShard piece;
    const int64_t cols = t.cols ? t.cols : 1;
    piece.path = path;
    piece.shape = t.cols ? std::vector<int64_t>{t.rows, t.cols} : std::vector<int64_t>{t.rows};
    piece.rows = {0, t.rows};
    piece.columns = {0, cols};
    piece.is_state = is_state;
    piece.saves = saves;
    const int64_t stride = t.stride;
    piece.read = [transfer, data, cols, stride](int64_t first, int64_t count, float* out) {
      transfer->read_rows(data + first * stride, stride, count, cols, out);
    };
    piece.write = [transfer, data, cols, stride](int64_t first, int64_t count, const float* in) {
      transfer->write_rows(data + first * stride, stride, count, cols, in);
    };
    all.push_back(std::move(piece));
  };
  const auto names = state_names();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int number = static_cast<int>(i);
    add(tensors_[i], tensors_[i].path, values(number), false);
    for (size_t s = 0; s < names.size(); ++s) {
      add(tensors_[i], tensors_[i].path + "_" + names[s], state(static_cast<int>(s), number), true);
    }
  }
  return all;
}

}  // namespace dlrm
