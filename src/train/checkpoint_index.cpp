#include "checkpoint_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "dlrm/core/error.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"
#include "checkpoint_hdf5.h"

namespace dlrm {

namespace {

constexpr const char* kFormat = "dlrm-checkpoint";
constexpr int64_t kVersion = 1;
constexpr const char* kIndexFile = "/index.h5";
constexpr const char* kIndexCrc = "/index.crc";
constexpr const char* kChoices = "/layout/choices";
constexpr size_t kPieceFields = 7;
constexpr size_t kTensorFields = 3;

std::string crc_line(const std::string& index_path) {
  const File file(index_path, File::Mode::kRead);
  return fmt::format("crc32c {:08x} bytes {}\n", crc32c_of_file(index_path), file.size());
}

/// The names in a Virtual Dataset's mapping are patterns in which % begins a block number.
std::string escaped(const std::string& name) {
  std::string result;
  for (const char c : name) {
    result += c;
    if (c == '%') result += c;
  }
  return result;
}

void write_virtual_tensor(const H5File& file, const StoredTensor& tensor, const StoredPiece* pieces,
                          size_t count) {
  const H5Handle space = simple_space(tensor.shape);
  const H5Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const float missing = std::numeric_limits<float>::quiet_NaN();
  H5Pset_fill_value(layout.get(), H5T_NATIVE_FLOAT, &missing);
  const size_t dimensions = tensor.shape.size();
  for (const StoredPiece* piece = pieces; piece != pieces + count; ++piece) {
    const hsize_t begin[2] = {static_cast<hsize_t>(piece->rows.begin),
                              static_cast<hsize_t>(piece->columns.begin)};
    const hsize_t size[2] = {static_cast<hsize_t>(piece->rows.size()),
                             static_cast<hsize_t>(piece->columns.size())};
    file.check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin, nullptr, size, nullptr),
               "select a part of", tensor.path);
    const H5Handle source(H5Screate_simple(static_cast<int>(dimensions), size, nullptr), H5Sclose);
    const std::string data = piece_name(tensor.path, piece->rows, piece->columns);
    file.check(H5Pset_virtual(layout.get(), space.get(),
                              rank_file_name(static_cast<int>(piece->rank)).c_str(),
                              escaped(data).c_str(), source.get()),
               "map a part of", tensor.path);
  }
  H5Sselect_all(space.get());
  const H5Handle groups = intermediate_groups();
  file.check(H5Dcreate2(file.id(), tensor.path.c_str(), H5T_IEEE_F32LE, space.get(), groups.get(),
                        layout.get(), H5P_DEFAULT),
             H5Dclose, "create", tensor.path);
}

void write_virtual_tensors(const H5File& file, const CheckpointIndex& index) {
  size_t piece = 0;
  for (size_t t = 0; t < index.tensors.size(); ++t) {
    const size_t first = piece;
    while (piece < index.pieces.size() && index.pieces[piece].tensor == static_cast<int64_t>(t)) {
      ++piece;
    }
    write_virtual_tensor(file, index.tensors[t], index.pieces.data() + first, piece - first);
  }
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

std::vector<StoredPiece> unpack_pieces(const std::vector<int64_t>& values) {
  std::vector<StoredPiece> pieces;
  for (size_t i = 0; i + kPieceFields <= values.size(); i += kPieceFields) {
    const int64_t* v = values.data() + i;
    pieces.push_back({v[0], {v[1], v[2]}, {v[3], v[4]}, v[5], v[6]});
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

/// [ranks, bytes of each, then the bytes, each rank's from a new element].
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
  if (ranks + 1 > values.size()) return {};
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

void write_state(H5File& file, const CheckpointState& state) {
  file.set_attribute("format", std::string(kFormat));
  file.set_attribute("version", kVersion);
  file.set_attribute("step", state.step);
  file.set_attribute("samples", state.samples);
  file.set_attribute("epoch", state.epoch);
  file.set_attribute("batch", state.batch);
  file.set_attribute("seed", state.seed);
  file.set_attribute("config", state.config);
  file.set_attribute("plan", state.plan);
}

CheckpointState read_state(const H5File& file) {
  const std::string format = file.text_attribute("format");
  const int64_t version = file.integer_attribute("version");
  if (format != kFormat || version != kVersion) {
    throw run_error("{}: format \"{}\" version {}, this program reads \"{}\" version {}",
                    file.path(), format, version, kFormat, kVersion);
  }
  CheckpointState state;
  state.step = file.integer_attribute("step");
  state.samples = file.integer_attribute("samples");
  state.epoch = file.integer_attribute("epoch");
  state.batch = file.integer_attribute("batch");
  state.seed = file.unsigned_attribute("seed");
  state.config = file.text_attribute("config");
  state.plan = file.text_attribute("plan");
  return state;
}

bool inside(const StoredPiece& piece, const StoredTensor& tensor) {
  return piece.rows.begin >= 0 && piece.rows.size() > 0 && piece.rows.end <= tensor.rows() &&
         piece.columns.begin >= 0 && piece.columns.size() > 0 &&
         piece.columns.end <= tensor.columns();
}

}  // namespace

std::string piece_name(const std::string& tensor, Range rows, Range columns) {
  return fmt::format("{}/rows_{}-{}_columns_{}-{}", tensor, rows.begin, rows.end, columns.begin,
                     columns.end);
}

void write_index(const std::string& folder, const CheckpointIndex& index) {
  const std::string path = folder + kIndexFile;
  H5File file = H5File::create(path);
  write_state(file, index.state);
  write_virtual_tensors(file, index);
  file.set_attribute("tensors", pack_names(index));
  file.write_integers("/layout/shapes", pack_shapes(index));
  file.write_integers("/layout/pieces", pack_pieces(index));
  file.write_integers("/layout/files", pack_files(index));
  file.write_integers(kChoices, pack_tuned_algorithms(index.state.tuned_algorithms));
  file.close();
  File(path, File::Mode::kReadWrite).sync();
  write_small_file(folder + kIndexCrc, crc_line(path));
}

CheckpointIndex read_index(const std::string& folder) {
  const std::string path = folder + kIndexFile;
  const auto expected = read_small_file(folder + kIndexCrc);
  if (!expected) throw run_error("{}{}: missing", folder, kIndexCrc);
  const std::string found = crc_line(path);
  if (found != *expected) {
    throw run_error("{}: damaged (its CRC32C or size is not that of index.crc)", path);
  }
  const H5File file = H5File::open(path);
  CheckpointIndex index;
  index.state = read_state(file);
  index.tensors =
      unpack_tensors(file.text_attribute("tensors"), file.read_integers("/layout/shapes"));
  index.pieces = unpack_pieces(file.read_integers("/layout/pieces"));
  index.files = unpack_files(file.read_integers("/layout/files"));
  if (H5Lexists(file.id(), kChoices, H5P_DEFAULT) > 0) {
    index.state.tuned_algorithms = unpack_tuned_algorithms(file.read_integers(kChoices));
  }
  check_coverage(index, path);
  return index;
}

void check_coverage(const CheckpointIndex& index, const std::string& where) {
  std::vector<__int128> cells(index.tensors.size(), 0);
  for (const StoredPiece& piece : index.pieces) {
    const bool known = piece.tensor >= 0 && piece.tensor < static_cast<int64_t>(cells.size());
    if (!known || piece.rank < 0 || piece.rank >= static_cast<int64_t>(index.files.size()) ||
        !inside(piece, index.tensors[static_cast<size_t>(piece.tensor)])) {
      throw run_error("{}: a piece lies outside of its tensor", where);
    }
    cells[static_cast<size_t>(piece.tensor)] +=
        static_cast<__int128>(piece.rows.size()) * piece.columns.size();
  }
  for (size_t t = 0; t < cells.size(); ++t) {
    const StoredTensor& tensor = index.tensors[t];
    if (cells[t] != static_cast<__int128>(tensor.rows()) * tensor.columns()) {
      throw run_error("{}: the pieces of {} do not make up the whole of it", where, tensor.path);
    }
  }
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
  state.tuned_algorithms =
      unpack_tuned_algorithms(integers(pack_tuned_algorithms(state.tuned_algorithms)));
  state.step = numbers[0];
  state.samples = numbers[1];
  state.epoch = numbers[2];
  state.batch = numbers[3];
  state.seed = static_cast<uint64_t>(numbers[4]);
  const std::string names = broadcast_text(comm, pack_names(index));
  index.tensors = unpack_tensors(names, integers(pack_shapes(index)));
  index.pieces = unpack_pieces(integers(pack_pieces(index)));
  index.files = unpack_files(integers(pack_files(index)));
}

}  // namespace dlrm
