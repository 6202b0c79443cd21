// The contents of a checkpoint's index whose CRC is right: the lists of numbers and texts that
// index.h5 holds. Each line is a name and its values.
#include <limits>

#include "dlrm/train/evaluation_history.h"

#include "fuzz.h"
#include "train/checkpoint/checkpoint_index.h"
#include "train/checkpoint/checkpoint_records.h"

namespace dlrm::fuzz {
namespace {

struct Input {
  IndexRecords records;
  CheckpointState state;
};

void take(std::string_view line, Input& input) {
  const std::vector<std::string_view> words = split(line, ' ');
  std::vector<int64_t> numbers;
  for (size_t i = 1; i < words.size(); ++i) numbers.push_back(number(words[i]));
  const std::string_view name = words[0];
  const std::string_view rest = line.substr(std::min(line.size(), name.size() + 1));
  if (name == "state") {
    numbers.resize(4);
    input.state.step = numbers[0];
    input.state.samples = numbers[1];
    input.state.epoch = numbers[2];
    input.state.batch = numbers[3];
  } else if (name == "evaluations") {
    input.state.evaluations = rest;
  } else if (name == "tensor") {
    input.records.names.append(rest).append("\n");
  } else if (name == "text") {
    input.records.names.append(rest);
  } else if (name == "shapes") {
    input.records.shapes.insert(input.records.shapes.end(), numbers.begin(), numbers.end());
  } else if (name == "pieces") {
    input.records.pieces.insert(input.records.pieces.end(), numbers.begin(), numbers.end());
  } else if (name == "crcs") {
    input.records.piece_crcs = numbers;
  } else if (name == "files") {
    input.records.files = numbers;
  } else if (name == "choices") {
    input.records.tuned_algorithms = numbers;
  }
}

/// Counts the pieces of each cell of small tensors.
void check_cells(const CheckpointIndex& index) {
  constexpr int64_t kMostCells = 4096;
  for (size_t t = 0; t < index.tensors.size(); ++t) {
    const StoredTensor& tensor = index.tensors[t];
    if (tensor.rows() > kMostCells || tensor.columns() > kMostCells / tensor.rows()) continue;
    std::vector<int> pieces(static_cast<size_t>(tensor.rows() * tensor.columns()));
    for (const StoredPiece& piece : index.pieces) {
      if (piece.tensor != static_cast<int64_t>(t)) continue;
      for (int64_t row = piece.rows.begin; row < piece.rows.end; ++row) {
        for (int64_t c = piece.columns.begin; c < piece.columns.end; ++c) {
          ++pieces.at(static_cast<size_t>(row * tensor.columns() + c));
        }
      }
    }
    for (const int count : pieces) {
      if (count != 1) fail("a cell of {} is in {} pieces", tensor.path, count);
    }
  }
}

/// Compares every two pieces.
void check_places(const CheckpointIndex& index) {
  constexpr size_t kMostPieces = 64;
  for (const StoredPiece& piece : index.pieces) {
    if (static_cast<__int128>(piece.offset) + piece.bytes() >
        index.files.at(static_cast<size_t>(piece.rank)).bytes) {
      fail("a piece ends at {} + {}", piece.offset, piece.bytes());
    }
  }
  for (size_t i = 0; i < std::min(index.pieces.size(), kMostPieces); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const StoredPiece &a = index.pieces[i], &b = index.pieces[j];
      const bool apart =
          a.rank != b.rank || a.offset + a.bytes() <= b.offset || b.offset + b.bytes() <= a.offset;
      if (!apart) fail("pieces at {} and {} overlap", a.offset, b.offset);
    }
  }
}

void check_evaluations(const std::string& text) {
  for (const BestMetric metric : {BestMetric::kAuc, BestMetric::kLogLoss}) {
    EvaluationHistory history(metric);
    if (!accepted(ExitCode::kFailure, [&] { history.restore(text); })) return;
    EvaluationHistory again(metric);
    again.restore(history.text());
    if (again.text() != history.text()) fail("evaluations change: {}", again.text());
    Evaluation next;
    next.result.log_loss = std::numeric_limits<double>::infinity();
    history.add(next);
    if (history.since_best() < 1) fail("{} evaluations since the best", history.since_best());
  }
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm;
  using namespace dlrm::fuzz;
  Input input;
  for (const std::string_view line : split({reinterpret_cast<const char*>(data), size}, '\n')) {
    take(line, input);
  }
  check_evaluations(input.state.evaluations);
  CheckpointIndex index;
  if (!accepted(ExitCode::kFailure, [&] {
        index = unpack_index(input.records, "index.h5");
        input.state.tuned_algorithms = index.state.tuned_algorithms;
        index.state = input.state;
        check_index(index, "index.h5");
      })) {
    return 0;
  }
  check_cells(index);
  check_places(index);
  IndexRecords packed = pack_index(index);
  packed.tuned_algorithms = input.records.tuned_algorithms;  // of which some may be left out
  if (!input.records.piece_crcs) packed.piece_crcs.reset();
  if (packed != input.records) fail("changes when it is packed and unpacked");
  return 0;
}
