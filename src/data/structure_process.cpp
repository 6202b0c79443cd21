#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "child_process.h"
#include "structure_bytes.h"
#include "structure_reader.h"

namespace dlrm {
namespace {

// The first argument of a process that reads structures for another one.
constexpr const char* kChildName = "dlrm-read-structures";
// A command line may have 128 KiB at least.
constexpr size_t kFilesOfAChild = 256;
constexpr rlim_t kChildCpuSeconds = 60;
constexpr rlim_t kChildMemory = rlim_t{4} << 30;

/// What the child sends for a file.
struct Reply {
  int64_t code = 0;   // of an Error, or 0
  std::string error;  // its text
  DatasetStructure structure;
};

template <class Stream>
void visit(Stream& stream, Reply& reply) {
  stream(reply.code);
  stream(reply.error);
  visit(stream, reply.structure);
}

Reply read_here(const std::string& path) {
  Reply reply;
  try {
    reply.structure = StructureReader(path).read();
  } catch (const Error& error) {
    reply.code = static_cast<int64_t>(error.code());
    reply.error = error.what();
  } catch (const std::exception&) {
    reply.code = static_cast<int64_t>(ExitCode::kUsage);
    reply.error = path + ": damaged: its metadata cannot be read";
  }
  return reply;
}

DatasetStructure structure_of(Reply reply) {
  if (reply.code != 0) throw Error(static_cast<ExitCode>(reply.code), reply.error);
  return std::move(reply.structure);
}

// The child.

void limit(int resource, rlim_t most) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return;
  now.rlim_cur = std::min(most, now.rlim_max);
  setrlimit(resource, &now);
}

/// Damaged metadata may ask for any amount of time and memory.
void limit_child() {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kChildCpuSeconds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit(RLIMIT_DATA, kChildMemory);
#endif
}

void send(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t put = ::write(STDOUT_FILENO, bytes.data() + at, bytes.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) _exit(1);
    at += static_cast<size_t>(put);
  }
}

/// Runs before main() in every program that holds this code, or loads it at its start. So any
/// program that reads datasets is its own child, and no other program has to be found.
[[gnu::constructor]] void serve_as_child(int argc, char** argv, char**) {
  if (argc < 1 || std::strcmp(argv[0], kChildName) != 0) return;
  limit_child();
  for (int i = 1; i < argc; ++i) {
    Reply reply = read_here(argv[i]);
    Packer packer;
    visit(packer, reply);
    send(packer.bytes);
  }
  _exit(0);
}

// The parent.

/// A started child and the end of the pipe that it writes to.
struct Child {
  pid_t pid = -1;
  int output = -1;
};

/// Returns the shared object that holds this code. Empty if the program itself does.
std::string own_shared_object() {
  Dl_info place{};
  link_map* object = nullptr;
  const auto code = reinterpret_cast<const void*>(&serve_as_child);
  dladdr1(code, &place, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP);
  return object ? object->l_name : "";
}

/// The environment of the child, "NAME=value" each. A program such as Python loads this code late,
/// as a module. Its child must load it before main().
std::vector<std::string> environment_of_child() {
  const std::string variable = "LD_PRELOAD=";
  const std::string object = own_shared_object();
  std::string preload = variable + object;
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (object.empty() || !text.starts_with(variable)) {
      all.push_back(text);
    } else {
      preload += ":" + text.substr(variable.size());
    }
  }
  if (!object.empty()) all.push_back(preload);
  return all;
}

/// None if this system cannot start one.
std::optional<Child> start_reader(const std::vector<std::string>& paths) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words{kChildName};
  words.insert(words.end(), paths.begin(), paths.end());
  std::vector<std::string> environment = environment_of_child();
  Child child{-1, ends[0]};
  const int error = start_child("/proc/self/exe", files, words, environment, child.pid);
  posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  if (error == 0) return child;
  ::close(ends[0]);
  return {};
}

/// Reads what the child sends until it ends. Returns how it ended, as waitpid() tells.
int read_all(const Child& child, std::string& bytes) {
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = ::read(child.output, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
  ::close(child.output);
  return await_child(child.pid);
}

/// Takes the next reply of a child that ended like this. The reply may be cut short or garbled.
Reply take_reply(Unpacker& unpacker, const std::string& path, int status) {
  try {
    Reply reply;
    visit(unpacker, reply);
    if (reply.code == 0) check_structure(reply.structure);
    return reply;
  } catch (const Error&) {
    if (status == 0) throw usage_error("{}: damaged: its metadata makes no sense", path);
    throw usage_error("{}: damaged: the HDF5 library ended with {} while it read the metadata",
                      path, how_it_ended(status));
  }
}

/// Appends the structures of a few files.
void read_some(const std::vector<std::string>& paths, std::vector<DatasetStructure>& out) {
  const std::optional<Child> child = start_reader(paths);
  if (!child) {
    for (const std::string& path : paths) out.push_back(structure_of(read_here(path)));
    return;
  }
  std::string bytes;
  const int status = read_all(*child, bytes);
  Unpacker unpacker(bytes);
  for (const std::string& path : paths) {
    out.push_back(structure_of(take_reply(unpacker, path, status)));
  }
}

}  // namespace

std::vector<DatasetStructure> read_structures(const std::vector<std::string>& paths) {
  std::vector<DatasetStructure> structures;
  for (size_t first = 0; first < paths.size(); first += kFilesOfAChild) {
    const size_t last = std::min(paths.size(), first + kFilesOfAChild);
    read_some({paths.begin() + static_cast<std::ptrdiff_t>(first),
               paths.begin() + static_cast<std::ptrdiff_t>(last)},
              structures);
  }
  return structures;
}

}  // namespace dlrm
