#include "checkpoint_index.h"

#include <algorithm>
#include <cstring>

#include "dlrm/core/error.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"

namespace dlrm {

namespace {

constexpr const char* kFormat = "dlrm-checkpoint";
constexpr int64_t kVersion = 1;
constexpr const char* kIndexFile = "/index.h5";
constexpr const char* kIndexCrc = "/index.crc";
constexpr const char* kChoices = "/layout/choices";
constexpr const char* kPieceCrcs = "/layout/piece_crcs";
constexpr size_t kPieceFields = 7;
constexpr size_t kTensorFields = 3;

std::string crc_line(const std::string& index_path) {
  const File file(index_path, File::Mode::kRead);
  return fmt::format("crc32c {:08x} bytes {}\n", crc32c_of_file(index_path), file.size());
}

void write_virtual_tensors(hdf5::File& file, const CheckpointIndex& index) {
  auto piece = index.pieces.begin();
  for (size_t t = 0; t < index.tensors.size(); ++t) {
    const StoredTensor& tensor = index.tensors[t];
    std::vector<hdf5::VirtualPart> parts;
    for (; piece != index.pieces.end() && piece->tensor == static_cast<int64_t>(t); ++piece) {
      parts.push_back({piece->rows, piece->columns, rank_file_name(static_cast<int>(piece->rank)),
                       piece_name(tensor.path, piece->rows, piece->columns)});
    }
    file.create_virtual(tensor.path, tensor.shape, parts);
  }
}

void write_integers(hdf5::File& file, const char* name, const std::vector<int64_t>& values) {
  file.create_dataset(name, hdf5::Type::kInt64, {static_cast<int64_t>(values.size())})
      .write(View<const int64_t>(values));
}

std::vector<int64_t> pack_pieces(const CheckpointIndex& index) {
  std::vector<int64_t> values;
  values.reserve(index.pieces.size() * kPieceFields);
  for (const StoredPiece& p : index.pieces) {
    values.insert(values.end(), {p.tensor, p.rows.begin, p.rows.end, p.columns.begin, p.columns.end,
                                 p.rank, p.offset});
  }
  return values;
}

std::vector<int64_t> pack_piece_crcs(const CheckpointIndex& index) {
  std::vector<int64_t> values;
  for (const StoredPiece& p : index.pieces) values.push_back(p.crc32c);
  return values;
}

/// Without `crcs`, the pieces have none.
std::vector<StoredPiece> unpack_pieces(const std::vector<int64_t>& values,
                                       const std::vector<int64_t>& crcs) {
  std::vector<StoredPiece> pieces;
  for (size_t i = 0; i + kPieceFields <= values.size(); i += kPieceFields) {
    const int64_t* v = values.data() + i;
    pieces.push_back({v[0], {v[1], v[2]}, {v[3], v[4]}, v[5], v[6]});
    if (!crcs.empty()) pieces.back().crc32c = crcs[pieces.size() - 1];
  }
  return pieces;
}

std::vector<int64_t> pack_shapes(const CheckpointIndex& index) {
  std::vector<int64_t> values;
  for (const StoredTensor& t : index.tensors) {
    values.insert(values.end(), {static_cast<int64_t>(t.shape.size()), t.rows(), t.columns()});
  }
  return values;
}

std::string pack_names(const CheckpointIndex& index) {
  std::string names;
  for (const StoredTensor& t : index.tensors) names += t.path + "\n";
  return names;
}

std::vector<StoredTensor> unpack_tensors(const std::string& names,
                                         const std::vector<int64_t>& shapes) {
  std::vector<StoredTensor> tensors;
  size_t begin = 0;
  for (size_t i = 0; i + kTensorFields <= shapes.size(); i += kTensorFields) {
    const size_t end = names.find('\n', begin);
    if (end == std::string::npos) break;
    StoredTensor tensor{names.substr(begin, end - begin), {shapes[i + 1]}};
    if (shapes[i] == 2) tensor.shape.push_back(shapes[i + 2]);
    tensors.push_back(std::move(tensor));
    begin = end + 1;
  }
  return tensors;
}

std::vector<int64_t> pack_files(const CheckpointIndex& index) {
  std::vector<int64_t> values;
  for (const StoredFile& f : index.files) values.insert(values.end(), {f.bytes, f.crc32c});
  return values;
}

std::vector<StoredFile> unpack_files(const std::vector<int64_t>& values) {
  std::vector<StoredFile> files;
  for (size_t i = 0; i + 2 <= values.size(); i += 2) files.push_back({values[i], values[i + 1]});
  return files;
}

/// Packs [ranks, bytes of each rank, then the bytes]. The bytes of each rank start a new element.
std::vector<int64_t> pack_tuned_algorithms(const std::vector<std::string>& choices) {
  std::vector<int64_t> values{static_cast<int64_t>(choices.size())};
  for (const std::string& bytes : choices) values.push_back(static_cast<int64_t>(bytes.size()));
  for (const std::string& bytes : choices) {
    const size_t at = values.size();
    values.resize(at + (bytes.size() + sizeof(int64_t) - 1) / sizeof(int64_t));
    if (!bytes.empty()) std::memcpy(values.data() + at, bytes.data(), bytes.size());
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

void write_state(hdf5::File& file, const CheckpointState& state) {
  file.set_text("format", kFormat);
  file.set_integer("version", kVersion);
  file.set_integer("step", state.step);
  file.set_integer("samples", state.samples);
  file.set_integer("epoch", state.epoch);
  file.set_integer("batch", state.batch);
  file.set_unsigned_integer("seed", state.seed);
  file.set_text("config", state.config);
  file.set_text("plan", state.plan);
  file.set_text("evaluations", state.evaluations);
}

/// The value of an attribute that every index has.
template <class T>
T required(const hdf5::File& file, const char* name,
           std::optional<T> (hdf5::Object::*read)(const std::string&) const) {
  const std::optional<T> value = (file.*read)(name);
  if (!value) throw run_error("{}: has no valid attribute {}", file.path(), name);
  return *value;
}

int64_t integer(const hdf5::File& file, const char* name) {
  return required(file, name, &hdf5::File::integer);
}

std::string text(const hdf5::File& file, const char* name) {
  return required(file, name, &hdf5::File::text);
}

CheckpointState read_state(const hdf5::File& file) {
  const std::string format = text(file, "format");
  const int64_t version = integer(file, "version");
  if (format != kFormat || version != kVersion) {
    throw run_error("{}: format \"{}\" version {}, this program reads \"{}\" version {}",
                    file.path(), format, version, kFormat, kVersion);
  }
  CheckpointState state;
  state.step = integer(file, "step");
  state.samples = integer(file, "samples");
  state.epoch = integer(file, "epoch");
  state.batch = integer(file, "batch");
  state.seed = required(file, "seed", &hdf5::File::unsigned_integer);
  state.config = text(file, "config");
  state.plan = text(file, "plan");
  // Checkpoints of earlier versions have none.
  state.evaluations = file.text("evaluations").value_or("");
  return state;
}

/// Tensors have one dimension or two. With one, the number of columns is 1.
void check_dimensions(const std::vector<int64_t>& shapes, const std::string& where) {
  for (size_t i = 0; i < shapes.size(); i += kTensorFields) {
    const bool fits = shapes[i] == 2 || (shapes[i] == 1 && shapes[i + 2] == 1);
    if (!fits) throw run_error("{}: tensor {} has {} dimensions", where, i / 3, shapes[i]);
  }
}

/// Reads a list of integers. It is stored as it is, so it is no longer than its file.
std::vector<int64_t> read_integers(const hdf5::File& file, const char* name, int64_t file_bytes) {
  const hdf5::Dataset dataset = file.dataset(name);
  const int64_t most = file_bytes / static_cast<int64_t>(sizeof(int64_t));
  if (dataset.type() != hdf5::Type::kInt64 || dataset.elements() < 0 || dataset.elements() > most) {
    throw run_error("{}: {} is no list of 64-bit integers", file.path(), name);
  }
  return dataset.read<int64_t>();
}

/// A list of records with `fields` numbers each, `count` of them if that is not negative.
std::vector<int64_t> read_records(const hdf5::File& file, const char* name, int64_t file_bytes,
                                  size_t fields, int64_t count = -1) {
  auto values = read_integers(file, name, file_bytes);
  const auto expected = static_cast<size_t>(count) * fields;
  if (values.size() % fields != 0 || (count >= 0 && values.size() != expected)) {
    throw run_error("{}: {} has {} numbers, which is no multiple of {}, or too many or too few",
                    file.path(), name, values.size(), fields);
  }
  return values;
}

}  // namespace

std::string piece_name(const std::string& tensor, Range rows, Range columns) {
  return fmt::format("{}/rows_{}-{}_columns_{}-{}", tensor, rows.begin, rows.end, columns.begin,
                     columns.end);
}

hdf5::File create_checkpoint_file(const std::string& path) {
  // No lock is needed, because no other process opens a file of an unfinished checkpoint. Some
  // shared file systems have no locks.
  return hdf5::File::create(path, {.checksums = true, .lock = false});
}

void write_index(const std::string& folder, const CheckpointIndex& index) {
  const std::string path = folder + kIndexFile;
  hdf5::File file = create_checkpoint_file(path);
  write_state(file, index.state);
  write_virtual_tensors(file, index);
  file.set_text("tensors", pack_names(index));
  write_integers(file, "/layout/shapes", pack_shapes(index));
  write_integers(file, "/layout/pieces", pack_pieces(index));
  write_integers(file, kPieceCrcs, pack_piece_crcs(index));
  write_integers(file, "/layout/files", pack_files(index));
  write_integers(file, kChoices, pack_tuned_algorithms(index.state.tuned_algorithms));
  file.close();
  File(path, File::Mode::kReadWrite).sync();
  write_file(folder + kIndexCrc, crc_line(path));
}

CheckpointIndex read_index(const std::string& folder) {
  const std::string path = folder + kIndexFile;
  const auto expected = read_file(folder + kIndexCrc);
  if (!expected) throw run_error("{}{}: missing", folder, kIndexCrc);
  const std::string found = crc_line(path);
  if (found != *expected) {
    throw run_error("{}: damaged (its CRC32C or size is not that of index.crc)", path);
  }
  const hdf5::File file = hdf5::File::open(path);
  const int64_t bytes = File(path, File::Mode::kRead).size();
  CheckpointIndex index;
  index.state = read_state(file);
  const std::string names = text(file, "tensors");
  const auto tensors = std::count(names.begin(), names.end(), '\n');
  const auto shapes = read_records(file, "/layout/shapes", bytes, kTensorFields, tensors);
  check_dimensions(shapes, path);
  index.tensors = unpack_tensors(names, shapes);
  const auto pieces = read_records(file, "/layout/pieces", bytes, kPieceFields);
  std::vector<int64_t> crcs;
  if (file.exists(kPieceCrcs)) {
    const auto count = static_cast<int64_t>(pieces.size() / kPieceFields);
    crcs = read_records(file, kPieceCrcs, bytes, 1, count);
  }
  index.pieces = unpack_pieces(pieces, crcs);
  index.files = unpack_files(read_records(file, "/layout/files", bytes, 2));
  if (file.exists(kChoices)) {
    index.state.tuned_algorithms = unpack_tuned_algorithms(read_integers(file, kChoices, bytes));
  }
  check_index(index, path);
  const auto step = step_number(folder_name(folder));
  if (step && *step != index.state.step) {
    throw run_error("{}: is of step {}, its folder is not", path, index.state.step);
  }
  return index;
}

void broadcast_index(Communicator& comm, CheckpointIndex& index) {
  const auto integers = [&](std::vector<int64_t> values) {
    int64_t count = static_cast<int64_t>(values.size());
    comm.broadcast(&count, sizeof count, 0);
    values.resize(static_cast<size_t>(count));
    comm.broadcast(values.data(), count * static_cast<int64_t>(sizeof(int64_t)), 0);
    return values;
  };
  CheckpointState& state = index.state;
  const auto numbers = integers(
      {state.step, state.samples, state.epoch, state.batch, static_cast<int64_t>(state.seed)});
  state.config = broadcast_text(comm, state.config);
  state.plan = broadcast_text(comm, state.plan);
  state.evaluations = broadcast_text(comm, state.evaluations);
  state.tuned_algorithms =
      unpack_tuned_algorithms(integers(pack_tuned_algorithms(state.tuned_algorithms)));
  state.step = numbers[0];
  state.samples = numbers[1];
  state.epoch = numbers[2];
  state.batch = numbers[3];
  state.seed = static_cast<uint64_t>(numbers[4]);
  const std::string names = broadcast_text(comm, pack_names(index));
  index.tensors = unpack_tensors(names, integers(pack_shapes(index)));
  const auto crcs = integers(pack_piece_crcs(index));
  index.pieces = unpack_pieces(integers(pack_pieces(index)), crcs);
  index.files = unpack_files(integers(pack_files(index)));
}

}  // namespace dlrm
