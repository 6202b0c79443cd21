#include "checkpoint_records.h"

#include <algorithm>
#include <cstring>

#include "dlrm/core/error.h"

namespace dlrm {

namespace {

constexpr size_t kPieceFields = 7;
constexpr size_t kTensorFields = 3;
constexpr size_t kFileFields = 2;

std::vector<int64_t> pack_tuned_algorithms(const std::vector<std::string>& choices) {
  std::vector<int64_t> values{static_cast<int64_t>(choices.size())};
  for (const std::string& bytes : choices) values.push_back(static_cast<int64_t>(bytes.size()));
  for (const std::string& bytes : choices) {
    const size_t at = values.size();
    values.resize(at + (bytes.size() + sizeof(int64_t) - 1) / sizeof(int64_t));
    std::memcpy(values.data() + at, bytes.data(), bytes.size());
  }
  return values;
}

std::vector<std::string> unpack_tuned_algorithms(const std::vector<int64_t>& values) {
  const auto ranks = values.empty() ? 0 : static_cast<size_t>(values[0]);
  if (ranks >= values.size()) return {};
  std::vector<std::string> choices;
  size_t at = 1 + ranks;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto bytes = static_cast<size_t>(values[1 + rank]);
    const size_t elements = bytes / sizeof(int64_t) + (bytes % sizeof(int64_t) ? 1 : 0);
    if (elements > values.size() - at) return {};
    choices.emplace_back(reinterpret_cast<const char*>(values.data() + at), bytes);
    at += elements;
  }
  return choices;
}

/// Checks that a list holds records of `fields` numbers, `count` of them if that is given.
void check_size(const std::vector<int64_t>& values, size_t fields, std::optional<size_t> count,
                const std::string& where, const char* what) {
  if (values.size() % fields == 0 && (!count || values.size() == *count * fields)) return;
  throw run_error("{}: {} has {} numbers, which is no multiple of {}, or too many or too few",
                  where, what, values.size(), fields);
}

/// Tensors have one dimension or two. With one, the number of columns is 1.
void check_dimensions(const std::vector<int64_t>& shapes, const std::string& where) {
  for (size_t i = 0; i < shapes.size(); i += kTensorFields) {
    const bool fits = shapes[i] == 2 || (shapes[i] == 1 && shapes[i + 2] == 1);
    if (fits) continue;
    throw run_error("{}: tensor {} has {} dimensions", where, i / kTensorFields, shapes[i]);
  }
}

std::vector<StoredTensor> unpack_tensors(const IndexRecords& records) {
  std::vector<StoredTensor> tensors;
  size_t begin = 0;
  for (size_t i = 0; i < records.shapes.size(); i += kTensorFields) {
    const size_t end = records.names.find('\n', begin);
    StoredTensor tensor{records.names.substr(begin, end - begin), {records.shapes[i + 1]}};
    if (records.shapes[i] == 2) tensor.shape.push_back(records.shapes[i + 2]);
    tensors.push_back(std::move(tensor));
    begin = end + 1;
  }
  return tensors;
}

std::vector<StoredPiece> unpack_pieces(const IndexRecords& records) {
  std::vector<StoredPiece> pieces;
  for (size_t i = 0; i < records.pieces.size(); i += kPieceFields) {
    const int64_t* v = records.pieces.data() + i;
    pieces.push_back({v[0], {v[1], v[2]}, {v[3], v[4]}, v[5], v[6]});
    if (records.piece_crcs) pieces.back().crc32c = (*records.piece_crcs)[pieces.size() - 1];
  }
  return pieces;
}

}  // namespace

IndexRecords pack_index(const CheckpointIndex& index) {
  IndexRecords records;
  for (const StoredTensor& t : index.tensors) {
    records.names += t.path + "\n";
    const auto dimensions = static_cast<int64_t>(t.shape.size());
    records.shapes.insert(records.shapes.end(), {dimensions, t.rows(), t.columns()});
  }
  records.piece_crcs.emplace();
  for (const StoredPiece& p : index.pieces) {
    records.pieces.insert(records.pieces.end(), {p.tensor, p.rows.begin, p.rows.end,
                                                 p.columns.begin, p.columns.end, p.rank, p.offset});
    records.piece_crcs->push_back(p.crc32c);
  }
  for (const StoredFile& f : index.files) {
    records.files.insert(records.files.end(), {f.bytes, f.crc32c});
  }
  records.tuned_algorithms = pack_tuned_algorithms(index.state.tuned_algorithms);
  return records;
}

CheckpointIndex unpack_index(const IndexRecords& records, const std::string& where) {
  if (!records.names.empty() && records.names.back() != '\n') {
    throw run_error("{}: the last name of a tensor has no end", where);
  }
  const auto tensors = std::count(records.names.begin(), records.names.end(), '\n');
  check_size(records.shapes, kTensorFields, static_cast<size_t>(tensors), where, "/layout/shapes");
  check_dimensions(records.shapes, where);
  check_size(records.pieces, kPieceFields, {}, where, "/layout/pieces");
  if (records.piece_crcs) {
    const size_t pieces = records.pieces.size() / kPieceFields;
    check_size(*records.piece_crcs, 1, pieces, where, "/layout/piece_crcs");
  }
  check_size(records.files, kFileFields, {}, where, "/layout/files");
  CheckpointIndex index;
  index.tensors = unpack_tensors(records);
  index.pieces = unpack_pieces(records);
  for (size_t i = 0; i < records.files.size(); i += kFileFields) {
    index.files.push_back({records.files[i], records.files[i + 1]});
  }
  index.state.tuned_algorithms = unpack_tuned_algorithms(records.tuned_algorithms);
  return index;
}

}  // namespace dlrm
