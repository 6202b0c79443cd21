#include "dlrm/core/folder_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"
#include "dlrm/core/host_name.h"

namespace dlrm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(50);

std::string first_line(const char* path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

/// The content of the file `fd`.
std::string text_of(int fd) {
  std::string text;
  std::array<char, 1024> part{};
  while (text.size() < part.size()) {
    const ssize_t size = ::pread(fd, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(part.data(), static_cast<size_t>(size));
  }
  return text;
}

/// The same, read from the server if it is a network file.
std::string text_at(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text = text_of(fd);
  ::close(fd);
  return text;
}

/// When a process started, in clock ticks since the machine did. 0 if there is no such process.
int64_t start_ticks(const std::string& pid) {
  const std::string stat = text_at("/proc/" + pid + "/stat");
  const size_t name_end = stat.rfind(')');  // the name may contain anything, even ends of lines
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  int64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

std::string pid_namespace() {
  std::array<char, 64> name{};
  const ssize_t size = ::readlink("/proc/self/ns/pid", name.data(), name.size());
  return {name.data(), static_cast<size_t>(std::max<ssize_t>(0, size))};
}

std::string start_time(int64_t ticks) {
  timespec now{}, up{};
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &up);
  const std::time_t started = now.tv_sec - up.tv_sec + ticks / sysconf(_SC_CLK_TCK);
  std::tm utc{};
  gmtime_r(&started, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text.data();
}

std::string own_identity() {
  const int64_t ticks = start_ticks("self");
  std::random_device random;
  return fmt::format(
      "host {}\npid {}\nstarted {}\nboot {}\nnamespace {}\nticks {}\ntoken {:08x}{:08x}\n",
      host_name(), getpid(), start_time(ticks), first_line("/proc/sys/kernel/random/boot_id"),
      pid_namespace(), ticks, random(), random());
}

bool write_text(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put =
        ::pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return ::ftruncate(fd, static_cast<off_t>(done)) == 0;
}

std::map<std::string, std::string> fields_of(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::istringstream lines(text);
  std::string key, value;
  while (lines >> key && std::getline(lines >> std::ws, value)) fields[key] = value;
  return fields;
}

bool same_file(int fd, const std::string& path) {
  const int now = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat held {
  }, there{};
  const bool same = now >= 0 && ::fstat(fd, &held) == 0 && ::fstat(now, &there) == 0 &&
                    held.st_dev == there.st_dev && held.st_ino == there.st_ino;
  if (now >= 0) ::close(now);
  return same;
}

/// Seconds since a file was written, by the clock of its file system.
double age_of(int fd) {
  struct stat before {
  }, now{};
  if (::fstat(fd, &before) != 0 || ::futimens(fd, nullptr) != 0 || ::fstat(fd, &now) != 0) return 0;
  return static_cast<double>(now.st_mtim.tv_sec - before.st_mtim.tv_sec);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, LockTiming timing)
    : path_(folder + "/.dlrm-train.lock"), timing_(timing), identity_(own_identity()) {
  const auto deadline = Clock::now() + timing.patience;
  while (!open_and_lock() || has_live_holder()) {
    if (Clock::now() >= deadline) refuse();
    close();
    std::this_thread::sleep_for(kPoll);
  }
  write_record();
  if (!kernel_locks_) {
    // Of several that write at the same time the last one has the lock.
    std::this_thread::sleep_for(timing.patience);
    if (text_at(path_).rfind(identity_, 0) != 0) refuse();
  }
  heart_ = background_thread([this] { keep_beating(); });
}

FolderLock::~FolderLock() {
  if (heart_.joinable()) {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      stopping_ = true;
    }
    stop_.notify_one();
    heart_.join();
  }
  // Removed while it is locked. A process that gets the lock of a removed file opens the new one.
  if (in_place() && text_of(fd_).rfind(identity_, 0) == 0) ::unlink(path_.c_str());
  close();
}

bool FolderLock::in_place() const { return fd_ >= 0 && same_file(fd_, path_); }

void FolderLock::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool FolderLock::open_and_lock() {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  struct stat info {};
  if (fd_ < 0 || ::fstat(fd_, &info) != 0) {
    const int why = errno;
    close();
    throw run_error("{}: cannot open: {}", path_, std::strerror(why));
  }
  if (!S_ISREG(info.st_mode)) {
    close();
    throw run_error("{}: is not a regular file", path_);
  }
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  kernel_locks_ = ::fcntl(fd_, F_OFD_SETLK, &whole) == 0;
  if (!kernel_locks_ && (errno == EAGAIN || errno == EACCES)) return false;
  return same_file(fd_, path_);
}

bool FolderLock::has_live_holder() const {
  const std::string text = text_of(fd_);
  auto holder = fields_of(text);
  auto mine = fields_of(identity_);
  if (holder["token"].empty()) return false;
  const bool this_machine = holder["boot"] == mine["boot"];
  if (this_machine && kernel_locks_) return false;  // otherwise it would still have the lock
  if (this_machine && holder["namespace"] == mine["namespace"]) {
    return start_ticks(holder["pid"]) == std::atoll(holder["ticks"].c_str());
  }
  const std::chrono::duration<double> silence = timing_.silence;
  if (age_of(fd_) > silence.count()) return false;
  const auto end = Clock::now() + timing_.silence;
  while (Clock::now() < end) {
    std::this_thread::sleep_for(kPoll);
    if (text_at(path_) != text) return true;
  }
  return false;
}

void FolderLock::write_record() {
  const std::string text = fmt::format("{}beat {:012}\n", identity_, beats_++);
  // A lock without a record still holds, and a later beat may find room on the disk.
  if (write_text(fd_, text)) ::fdatasync(fd_);
}

void FolderLock::refuse() {
  auto holder = fields_of(text_at(path_));
  close();
  if (holder["pid"].empty()) holder = {{"host", "unknown"}, {"pid", "?"}, {"started", "?"}};
  throw usage_error(
      "{} is in use by another job: host {}, pid {}, started {}; let it end, or give each job a "
      "folder of its own",
      path_.substr(0, path_.rfind('/')), holder["host"], holder["pid"], holder["started"]);
}

void FolderLock::keep_beating() {
  std::unique_lock<std::mutex> guard(mutex_);
  while (!stop_.wait_for(guard, timing_.beat, [this] { return stopping_; })) write_record();
}

}  // namespace dlrm
