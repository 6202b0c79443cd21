#include "checkpoint_tensors.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <unistd.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/random.h"

namespace dlrm::testing {

namespace {

struct Tensor {
  const char* path;
  std::vector<int64_t> shape;
};

const std::vector<Tensor>& tensors() {
  static const std::vector<Tensor> all = {
      {"/mlp/bottom/0/bias", {5}},       {"/mlp/bottom/0/weight", {5, 13}},
      {"/mlp/top/10/weight", {1, 3}},    {"/tables/50% off/weight", {7, 3}},
      {"/tables/C1/adagrad", {37}},      {"/tables/C1/weight", {37, 6}},
      {"/tables/C10/adam_m", {101, 16}}, {"/tables/single/weight", {1, 1}},
  };
  return all;
}

void add_piece(std::vector<HeldPiece>& held, const Tensor& tensor, Range rows, Range columns,
               bool filled, int salt) {
  HeldPiece h;
  const int64_t width = columns.size();
  h.values = std::make_shared<std::vector<float>>(static_cast<size_t>(rows.size() * width), 0.0f);
  h.piece.path = tensor.path;
  h.piece.shape = tensor.shape;
  h.piece.rows = rows;
  h.piece.columns = columns;
  const auto values = h.values;
  h.piece.read = [values, width](int64_t first, int64_t count, float* out) {
    std::copy_n(values->data() + first * width, count * width, out);
  };
  h.piece.write = [values, width](int64_t first, int64_t count, const float* in) {
    std::copy_n(in, count * width, values->data() + first * width);
  };
  for (int64_t i = 0; filled && i < rows.size() * width; ++i) {
    (*values)[static_cast<size_t>(i)] =
        element_of(tensor.path, rows.begin + i / width, columns.begin + i % width, salt);
  }
  held.push_back(std::move(h));
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "dlrm_test_XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::path(const std::string& name) const {
  return name.empty() ? path_.string() : (path_ / name).string();
}

float element_of(const std::string& path, int64_t row, int64_t column, int salt) {
  const auto words = philox(stream_key(static_cast<uint64_t>(salt), path),
                            {static_cast<uint32_t>(row), static_cast<uint32_t>(column), 0, 0});
  return uniform01(words[0]) + 1.0f;
}

std::vector<HeldPiece> held_pieces(int rank, int ranks, Cut cut, bool filled, int salt) {
  std::vector<HeldPiece> held;
  int number = 0;
  for (const Tensor& tensor : tensors()) {
    const Range rows{0, tensor.shape[0]};
    const Range columns{0, tensor.shape.size() > 1 ? tensor.shape[1] : 1};
    const Range my_rows = part_of(rows.end, rank, ranks);
    if (cut == Cut::kRows) add_piece(held, tensor, my_rows, columns, filled, salt);
    if (cut == Cut::kColumns) {
      add_piece(held, tensor, rows, part_of(columns.end, rank, ranks), filled, salt);
    }
    if (cut == Cut::kByTensor && number++ % ranks == rank) {
      add_piece(held, tensor, rows, columns, filled, salt);
    }
    if (cut == Cut::kGrid) {
      const int64_t middle = columns.end / 2;
      const Range other_rows = part_of(rows.end, ranks - 1 - rank, ranks);
      add_piece(held, tensor, my_rows, {0, middle}, filled, salt);
      add_piece(held, tensor, other_rows, {middle, columns.end}, filled, salt);
    }
  }
  return held;
}

std::vector<TensorShard> pieces_of(const std::vector<HeldPiece>& held) {
  std::vector<TensorShard> pieces;
  for (const HeldPiece& h : held) pieces.push_back(h.piece);
  return pieces;
}

int64_t wrong_elements(const std::vector<HeldPiece>& held, int salt) {
  int64_t wrong = 0;
  for (const HeldPiece& h : held) {
    const int64_t width = h.piece.columns.size();
    for (size_t i = 0; i < h.values->size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const float expected = element_of(h.piece.path, h.piece.rows.begin + at / width,
                                        h.piece.columns.begin + at % width, salt);
      if (std::bit_cast<uint32_t>((*h.values)[i]) != std::bit_cast<uint32_t>(expected)) ++wrong;
    }
  }
  return wrong;
}

CheckpointState state_at(int64_t step) {
  CheckpointState state;
  state.step = step;
  state.samples = step * 2048;
  state.epoch = step / 100;
  state.batch = step % 100;
  state.seed = 0xfedcba9876543210u;
  state.config = "train: {seed: 1}\n" + std::string(100'000, '#') + "\n";
  state.plan = "{\"world\": 4}";
  state.evaluations = "{\"last\": 1}";
  state.tuned_algorithms = {"", "123456789"};
  return state;
}

void save_on(int ranks, Cut cut, const std::string& directory, int64_t step, int keep, int salt) {
  run_on_threads(ranks, [&](Communicator& comm) {
    const auto held = held_pieces(comm.rank(), ranks, cut, true, salt);
    save_checkpoint(comm, Log(comm.rank()), directory, keep, state_at(step), pieces_of(held));
  });
}

}  // namespace dlrm::testing
