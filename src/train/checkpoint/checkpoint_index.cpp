#include "checkpoint_index.h"

#include <utility>

#include "dlrm/core/error.h"

#include "checkpoint_agreement.h"
#include "checkpoint_files.h"
#include "checkpoint_records.h"

namespace dlrm {

namespace {

constexpr const char* kFormat = "dlrm-checkpoint";
constexpr int64_t kVersion = 1;
constexpr const char* kIndexFile = "/index.h5";
constexpr const char* kIndexCrc = "/index.crc";
constexpr const char* kChoices = "/layout/choices";
constexpr const char* kPreprocessing = "/preprocessing";
constexpr const char* kPieceCrcs = "/layout/piece_crcs";

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

void write_state(hdf5::File& file, const CheckpointState& state) {
  file.set_text("format", kFormat);
  file.set_integer("version", kVersion);
  file.set_integer("step", state.step);
  file.set_integer("samples", state.samples);
  file.set_integer("epoch", state.epoch);
  file.set_integer("batch", state.batch);
  file.set_unsigned_integer("seed", state.seed);
  file.set_integer("data_samples", state.data_samples);
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

/// Reads all but the tuned algorithms.
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
  // Checkpoints of earlier versions have neither.
  state.data_samples = file.integer("data_samples").value_or(0);
  state.evaluations = file.text("evaluations").value_or("");
  return state;
}

/// Sets all of the state but the tuned algorithms.
void set_state(CheckpointIndex& index, CheckpointState state) {
  state.tuned_algorithms = std::move(index.state.tuned_algorithms);
  index.state = std::move(state);
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
  const IndexRecords records = pack_index(index);
  file.set_text("tensors", records.names);
  write_integers(file, "/layout/shapes", records.shapes);
  write_integers(file, "/layout/pieces", records.pieces);
  write_integers(file, kPieceCrcs, *records.piece_crcs);
  write_integers(file, "/layout/files", records.files);
  write_integers(file, kChoices, records.tuned_algorithms);
  if (const std::string& bytes = index.state.preprocessing; !bytes.empty()) {
    file.create_dataset(kPreprocessing, hdf5::Type::kUint8, {static_cast<int64_t>(bytes.size())})
        .write(View<const uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
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
  CheckpointState state = read_state(file);
  IndexRecords records;
  records.names = text(file, "tensors");
  records.shapes = read_integers(file, "/layout/shapes", bytes);
  records.pieces = read_integers(file, "/layout/pieces", bytes);
  if (file.exists(kPieceCrcs)) records.piece_crcs = read_integers(file, kPieceCrcs, bytes);
  records.files = read_integers(file, "/layout/files", bytes);
  if (file.exists(kChoices)) records.tuned_algorithms = read_integers(file, kChoices, bytes);
  CheckpointIndex index = unpack_index(records, path);
  set_state(index, std::move(state));
  check_index(index, path);
  const auto step = step_number(folder_name(folder));
  if (step && *step != index.state.step) {
    throw run_error("{}: is of step {}, its folder is not", path, index.state.step);
  }
  return index;
}

std::string read_preprocessing(const std::string& checkpoint) {
  const hdf5::File file = hdf5::File::open(checkpoint + kIndexFile);
  if (!file.exists(kPreprocessing)) return {};
  const std::vector<uint8_t> bytes = file.dataset(kPreprocessing).read<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

void broadcast_index(Communicator& comm, CheckpointIndex& index) {
  const auto integers = [&](std::vector<int64_t> values) {
    int64_t count = static_cast<int64_t>(values.size());
    comm.broadcast(&count, sizeof count, 0);
    values.resize(static_cast<size_t>(count));
    comm.broadcast(values.data(), count * static_cast<int64_t>(sizeof(int64_t)), 0);
    return values;
  };
  IndexRecords records = pack_index(index);
  records.names = broadcast_text(comm, records.names);
  records.shapes = integers(std::move(records.shapes));
  records.pieces = integers(std::move(records.pieces));
  records.piece_crcs = integers(std::move(*records.piece_crcs));
  records.files = integers(std::move(records.files));
  records.tuned_algorithms = integers(std::move(records.tuned_algorithms));
  CheckpointState state = std::move(index.state);
  const auto numbers = integers({state.step, state.samples, state.epoch, state.batch,
                                 static_cast<int64_t>(state.seed), state.data_samples});
  state.config = broadcast_text(comm, state.config);
  state.plan = broadcast_text(comm, state.plan);
  state.evaluations = broadcast_text(comm, state.evaluations);
  state.step = numbers[0];
  state.samples = numbers[1];
  state.epoch = numbers[2];
  state.batch = numbers[3];
  state.seed = static_cast<uint64_t>(numbers[4]);
  state.data_samples = numbers[5];
  index = unpack_index(records, "the checkpoint of rank 0");
  set_state(index, std::move(state));
}

}  // namespace dlrm
